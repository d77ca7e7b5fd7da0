// SPDX-License-Identifier: MIT
// The thread that sends a run's spool while the run goes on. It looks for new lines each second; where the server is
// away it warns once and tries again after growing pauses.
#pragma once

#include "settings.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string>
#include <thread>

namespace ddprun::mlflow {

class Delivery;

class Sender {
 public:
  Sender(Settings settings, std::filesystem::path run_dir);
  ~Sender();  // has a moment for what is under way
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  // All lines are written: sends the rest and ends the thread, within these seconds. What is left and why; empty where
  // all is sent.
  std::string finish(std::chrono::seconds patience);

 private:
  void work();
  void send_all(Delivery& delivery);
  void failed(const std::string& problem, long wanted_pause_seconds);
  void answered();
  void pause(std::chrono::milliseconds time);

  const Settings settings_;
  const std::filesystem::path run_dir_;
  std::atomic<bool> given_up_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool hurry_ = false;        // no more lines will come
  bool ended_ = false;        // the thread
  std::string left_ = "all";  // at its end

  int failures_ = 0;     // one after the other; of the thread alone, as what follows
  std::string problem_;  // the last
  std::thread thread_;   // last: it uses all the others
};

// Sends all that is left, for a process that holds the FolderLock. Throws UserError with what is left and why.
void send_rest(const Settings& settings, const std::filesystem::path& run_dir);

}  // namespace ddprun::mlflow
