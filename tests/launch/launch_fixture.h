// SPDX-License-Identifier: MIT
// Starts fake_launcher with fake_workers, and sees how they end. Nothing here sleeps: tests wait for what workers
// write.
#pragma once

#include "base/spawn.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace ddprun {

struct LauncherEnd {
  int exit_code = 0;  // as shells have it: 128+signal where it was killed
  std::string out, err;
};

struct LauncherOptions {
  int workers = 1;
  double grace_seconds = 60;  // far beyond a test: who relies on it hangs
  std::string program = FAKE_WORKER;
  std::vector<std::string> environment = {};
};

using Script = std::vector<std::string>;  // of fake_worker

// One launcher in a folder of its own. A launcher that still runs is killed at the end.
//
// Its FIFOs complete the words of a script: workers open the roll with "hold=", each writes its rank and process id,
// and its death closes its end; they wait at the gate with "await=" until the test opens it.
class FakeLauncher {
 public:
  FakeLauncher();
  ~FakeLauncher();
  FakeLauncher(const FakeLauncher&) = delete;
  FakeLauncher& operator=(const FakeLauncher&) = delete;

  // Returns the workers by rank where the script has them hold, once they do.
  std::map<int, pid_t> start(const LauncherOptions& options, const Script& script);
  LauncherEnd wait();
  LauncherEnd run(const LauncherOptions& options, const Script& script);
  LauncherEnd interrupt_until_end();  // as somebody who keeps pressing Ctrl-C
  void open_gate();
  void wait_until_all_are_dead();  // who hold
  void send(int signal) const;
  void wait_for_err(const std::string& text) const;  // on the launcher's standard error

  pid_t pid() const { return pid_; }
  std::filesystem::path run_dir() const { return folder_ / "run"; }
  std::filesystem::path logs() const { return run_dir() / "logs"; }
  std::filesystem::path roll() const { return folder_ / "roll"; }
  const std::filesystem::path& folder() const { return folder_.path(); }
  std::string log(int rank) const;  // what the rank printed, without the lines that say what it is

 private:
  std::map<int, pid_t> call(int workers);

  TestFolder folder_;
  UniqueFd roll_, gate_;
  pid_t pid_ = -1;
};

}  // namespace ddprun
