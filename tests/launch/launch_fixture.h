// SPDX-License-Identifier: MIT
// Starts fake_launcher with fake_workers, and sees how they end. Nothing here sleeps: tests wait for what workers
// write.
#pragma once

#include "base/spawn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace ddprun {

struct LauncherEnd {
  int exit_code = 0;  // as shells tell it: 128+signal where it was killed
  std::string out, err;
};

struct LauncherOptions {
  int workers = 1;
  double grace_seconds = 60;  // far beyond a test: who relies on it hangs
  std::string program;        // empty: fake_worker
  std::vector<std::string> environment;
};

// A FIFO that workers open with "hold": each writes its rank and process id, and its death closes its end.
class Roll {
 public:
  explicit Roll(const std::filesystem::path& fifo);
  const std::string& path() const { return path_; }
  std::map<int, pid_t> call(int workers);  // waits until that many have written
  void wait_until_all_are_dead();

 private:
  std::string path_;
  UniqueFd fd_;
};

// A FIFO that workers "await" until the test opens it.
class Gate {
 public:
  explicit Gate(const std::filesystem::path& fifo);
  const std::string& path() const { return path_; }
  void open();

 private:
  std::string path_;
  UniqueFd fd_;
};

// One launcher in a temporary folder of its own. A launcher that still runs is killed at the end.
class FakeLauncher {
 public:
  FakeLauncher();
  ~FakeLauncher();
  FakeLauncher(const FakeLauncher&) = delete;
  FakeLauncher& operator=(const FakeLauncher&) = delete;

  void start(const LauncherOptions& options, const std::vector<std::string>& script);
  LauncherEnd wait();
  LauncherEnd run(const LauncherOptions& options, const std::vector<std::string>& script);
  LauncherEnd interrupt_until_end();  // as somebody who keeps pressing Ctrl-C
  void send(int signal) const;
  void wait_for_err(const std::string& text) const;  // on the launcher's standard error

  pid_t pid() const { return pid_; }
  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path logs() const { return folder_ / "run" / "logs"; }
  std::string log(int rank) const;  // what the rank printed, without the lines that tell what it is

 private:
  std::filesystem::path folder_;
  pid_t pid_ = -1;
};

std::string read_text(const std::filesystem::path& file);

}  // namespace ddprun
