// SPDX-License-Identifier: MIT
// What the first node's agent does besides running its workers: it opens the run's folder, begins each attempt, and
// records and says how the run has ended.
#pragma once

#include "agent/agent.h"
#include "agent/run_source.h"
#include "agent/same_experiment.h"
#include "agent/sidecars.h"
#include "base/clock.h"
#include "base/run_files.h"
#include "rendezvous/coordinator.h"

#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

// With several nodes, begin() is called on the server's thread, while the other thread waits for orders and signals. On
// a single node the run's folder is touched aside alone (launch/signal_inbox.h), by one job after the other.
class FirstNode {
 public:
  // `common`: what the other nodes compare with theirs. References must outlive this object.
  FirstNode(const NodeSetup& setup, const RunRequest& request, const CommonPart& common);

  // Opens the run and warns of settings without effect. Throws UserError if it cannot start.
  void make_run();

  // What the coordinator calls at the beginning of an attempt, and where it has something to say.
  Coordinator::Begin begin();
  Coordinator::Notify notify();

  // Reports how the run ended, to people and to scripts, and returns the exit code. A file system that hangs does not
  // keep a user who has asked for the end.
  int conclude(const LaunchResult& result);

 private:
  // When a user who asks for the end gets it.
  enum class End {
    kAtOnce,      // before the job is done, since nothing has begun
    kAfterwards,  // after it, or before if it takes too long
    kWithIt       // the same; the job ends the run
  };

  struct Patience {
    std::string slow = {};  // what to say if it takes too long; empty: nothing is too long
    End end = End::kWithIt;
    bool asked = false;  // the user has asked for the end already
    int exit_code = 0;   // of kWithIt, if it takes too long
  };

  Order begin(int world_size, int nodes);
  std::string no_answer() const;
  std::filesystem::path checkpoint_to_begin_from();
  void write_beginning();
  void begin_with(const Patience& patience, const std::function<void()>& job);
  void wait_for(const Patience& patience, const std::function<void()>& job);
  std::shared_future<void> post(std::function<void()> job);
  std::shared_future<void> last_job();
  std::vector<int> hear_signals(const Patience& patience);
  bool record_end(const LaunchResult& result);
  void record_failure(const LaunchResult& result) const;
  int report_end(const LaunchResult& result) const;
  void note(const char* kind, const std::string& text);
  void note_whether_it_trained();

  const NodeSetup& setup_;
  const RunRequest& request_;
  const CommonPart& common_;
  const TimeSince since_command_;
  double earlier_seconds_ = 0;  // of earlier commands that have ended
  std::mutex mutex_;
  std::optional<PreparedRun> run_;
  std::shared_ptr<const HeldFolder> held_;  // the run's folder, once an attempt is recorded there
  int world_size_ = 1, attempt_ = 0;
  Sidecars sidecars_;
  bool begun_ = false;    // an attempt has begun
  bool trained_ = false;  // an attempt has, or it is the run's first

  std::mutex jobs_;
  std::shared_future<void> last_job_;  // that was posted
};

}  // namespace ddprun
