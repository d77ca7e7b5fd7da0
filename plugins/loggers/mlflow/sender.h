// SPDX-License-Identifier: MIT
// The thread that sends a run's spool while the run goes on. It checks for new lines every second; if the server is
// down, it warns once and retries after growing pauses.
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
  ~Sender();  // gives a request in progress a moment to end
  Sender(const Sender&) = delete;
  Sender& operator=(const Sender&) = delete;

  // Call after all lines are written: sends the rest and ends the thread, within `patience`. Returns what is left and
  // why; empty if all is sent.
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
  bool ended_ = false;        // the thread has ended
  std::string left_ = "all";  // what was left when it ended

  int failures_ = 0;     // consecutive; used by the thread alone, as are the following
  std::string problem_;  // the last one
  std::thread thread_;   // declared last: it uses all the others
};

// Sends everything that is left; the process must hold the lock mlflow/lock. Throws UserError with what is left and
// why.
void send_rest(const Settings& settings, const std::filesystem::path& run_dir);

}  // namespace ddprun::mlflow
