// SPDX-License-Identifier: MIT
// Starts the workers of one node, watches them, and reports how they ended. Free of LibTorch.
#pragma once

#include "launch/failure_report.h"

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

// What somebody else did to the run's folder.
struct FolderNews {
  std::string warning;  // for the user; empty: nothing
  bool stop = false;    // the workers are to save and to end
};

struct LaunchPlan {
  std::vector<std::string> command;  // a worker's program (a path, not searched on PATH) and arguments: exec'd
  std::vector<std::pair<std::string, std::string>> environment;  // on top of the launcher's own
  std::string config;             // the experiment that the workers train, as YAML; empty: <run_dir>/config.yaml
  std::filesystem::path run_dir;  // logs go to <run_dir>/logs/rank_<N>.log
  int workers = 1;                // of this node
  int first_rank = 0;             // of them; the others follow
  int world_size = 0;             // 0: this node's workers are all
  int local_rank = 0;             // of the first
  int local_world_size = 0;       // 0: `workers`
  std::string host;               // this node's, for reports; empty where it is the only one
  std::string device;             // for the ranks' logs: "cpu", "cuda over nccl"
  std::string store;              // where the ranks meet; empty: a file of this machine
  int attempt = 0;
  double started_at = 0;
  std::string stopping =
      "stopping: saving a checkpoint at the end of this step";  // told when a signal asks for the end; empty: not
  double ends_at =
      0;  // seconds since 1970 when the run is to be saved and to end, as by SIGUSR1; 0, or past: no matter
  double grace_seconds = 30;         // from SIGTERM to SIGKILL where the user stops the run
  double hang_seconds = 0;           // a worker that stands still for so long has failed; 0: no matter
  double timeout_seconds = 0;        // of the workers' collectives; 0: no matter
  double failure_grace_seconds = 3;  // the same where a worker failed: the others cannot finish a collective without it
  // Called every second or so. A UserError that it throws ends the workers at once: the folder must not be written to
  // any more.
  std::function<FolderNews()> look_after_folder;
  std::map<std::string, std::string> plugins;  // by their sections in the experiment: their places, for reports

  std::string place_of(const std::string& section) const;  // the section's name where the place is not known
};

// What one node of several tells the others while its workers run, and hears from them. Called from launch_workers'
// thread.
class LaunchObserver {
 public:
  enum class News { kNone, kStop, kAbort, kKill };  // the later count for more

  virtual ~LaunchObserver() = default;
  virtual int fd() const = 0;                                // readable where there may be news; -1: there is none
  virtual std::chrono::milliseconds ask_within() const = 0;  // take_news() is called this often at least
  virtual News take_news() = 0;
  virtual void failing() = 0;                            // the first worker here failed
  virtual void signalled(int signal, bool at_once) = 0;  // to this launcher
};

// Runs this node's workers to their end. None outlives this call, nor the launcher itself: the kernel kills them where
// the calling thread dies. Only the processes started here are ever signalled. Call it from the program's only thread.
//
// Meanwhile SIGINT, SIGTERM, SIGUSR1 and SIGHUP ask the workers to save and stop (SIGTERM to each); a SIGINT after that
// ends them at once. SIGTSTP (Ctrl-Z) pauses them too. SIGINT, SIGHUP and SIGTSTP that the caller ignores stay ignored
// (nohup). A worker that fails ends the others.
//
// Rank 0 writes to the caller's standard output. All else that workers print goes to their log files, and of that
// standard error to the caller's: rank 0's as it comes, the others' folded (line_folder.h).
//
// exit_code: 0 all done; 75 all saved, to be run again; 2 the experiment or the data are wrong; 128+signal killed by
// it, also where the user's signal ended workers that had not saved; 130 ended at once; else 1. A program that cannot
// be started is a failure with a report. Throws UserError where no log or temporary folder can be made.
LaunchResult launch_workers(const LaunchPlan& plan);

// The same for one node of several, or of a run of several attempts: what it means is judged with the others' ends.
AttemptEnd run_attempt(const LaunchPlan& plan, LaunchObserver& observer);

}  // namespace ddprun
