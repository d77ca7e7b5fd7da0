// SPDX-License-Identifier: MIT
// Starts the workers of one node, watches them, and reports how they ended. Does not need LibTorch.
#pragma once

#include "launch/failure_report.h"
#include "launch/worker_process.h"

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

struct LaunchPlan {
  std::vector<std::string> command;     // a worker's program (a path, not searched on PATH) and arguments
  Variables environment;                // added to the launcher's own
  WorkerPlace place;                    // of the first worker, but for the files; the others have the next ranks
  std::string config;                   // the workers' experiment as YAML
  int workers = 1;                      // on this node
  int shared_gpus = 0;                  // that the workers share; 0: each worker has its own
  std::vector<std::vector<int>> cores;  // of each GPU, to which its worker is bound; empty: all
  std::string host;                     // name of this node, for reports; empty if it is the only one
  std::string device;                   // for the ranks' logs: "cpu", "cuda over nccl"
  std::string stopping = "stopping: saving a checkpoint at the end of this step";  // on a signal; may be empty
  double ends_at = 0;          // seconds since 1970 when the run is saved and ended, as by SIGUSR1; 0, or past: never
  double grace_seconds = 30;   // from SIGTERM to SIGKILL when the user stops the run
  double hang_seconds = 0;     // a worker that stalls for so long has failed; 0: no limit
  double timeout_seconds = 0;  // of the workers' collectives; 0: none
  double failure_grace_seconds = 3;  // the same after a worker failed: the others cannot finish a collective without it
  std::map<std::string, std::string> plugins;  // places of the plugins by their sections in the experiment, for reports

  std::string place_of(const std::string& section) const;      // the section's name if the place is unknown
  WorkerPlace worker(int index) const;                         // that worker's place, but for the files
  std::vector<int> cores_of(const WorkerPlace& worker) const;  // that it is bound to; empty: all
};

// How one node of several exchanges news with the others while its workers run. Called from the thread of
// run_attempt().
class Orders {
 public:
  virtual ~Orders() = default;
  virtual int fd() const = 0;                                // readable when there may be news; -1: there is none
  virtual std::chrono::milliseconds ask_within() const = 0;  // how often take() must be called at least
  virtual std::optional<Order::Kind> take() = 0;             // kStop, kAbort or kKill
  virtual void failing() = 0;                                // the first worker of this node failed
  virtual void signalled(int signal, bool at_once) = 0;      // the signal came to this launcher
};

// Runs this node's workers to their end. None outlives this call, nor the launcher itself: the kernel kills them if the
// calling thread dies. Only processes started here are ever signalled. Call it from the program's only thread.
//
// Meanwhile SIGINT, SIGTERM, SIGUSR1 and SIGHUP ask the workers to save and stop (SIGTERM to each); a further SIGINT
// ends them at once. SIGTSTP (Ctrl-Z) pauses them too. SIGINT, SIGHUP and SIGTSTP that the caller ignores stay ignored
// (nohup). A worker that fails ends the others.
//
// Rank 0 writes to the caller's standard output. Everything else that workers print goes to their log files; their
// standard error also goes to the caller's, rank 0's as it comes and the others' folded (line_folder.h).
//
// exit_code: 0 all done; 75 all saved, to be run again; 2 the experiment or the data are wrong; 128+signal for a worker
// killed by it, also if the user's signal ended workers that had not saved; 130 ended at once; otherwise 1. A program
// that cannot be started is a failure with a report. Throws UserError if a log or the temporary folder cannot be
// created.
LaunchResult launch_workers(const LaunchPlan& plan);

// Runs the workers of one node of several, or one attempt of several. Returns how they ended, to be judged together
// with the other nodes'.
AttemptEnd run_attempt(const LaunchPlan& plan, Orders& orders);

}  // namespace ddprun
