// SPDX-License-Identifier: MIT
// Starts fake_launcher with fake_workers, and sees how they end. Nothing here sleeps: tests wait for what workers write.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "launch/spawn.h"

namespace ddprun {

struct LauncherEnd {
  int exit_code = -1;  // -1: killed by a signal
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

class LauncherTest : public ::testing::Test {
 protected:
  LauncherTest();
  ~LauncherTest() override;

  void start(const LauncherOptions& options, const std::vector<std::string>& script);
  LauncherEnd wait();
  LauncherEnd run(const LauncherOptions& options, const std::vector<std::string>& script);
  void send(int signal) const;

  pid_t launcher() const { return pid_; }
  void wait_for_err(const std::string& text) const;  // on the launcher's standard error
  std::string log(int rank) const;
  std::filesystem::path make_fifo(const std::string& name) const;

  std::filesystem::path folder_;  // of this test
  std::filesystem::path run_dir_;

 private:
  pid_t pid_ = -1;
};

std::string read_text(const std::filesystem::path& file);

}  // namespace ddprun
