// SPDX-License-Identifier: MIT
// A worker's access to the run's keys and values at the first node. Handles one request at a time. Thread-safe.
#pragma once

#include "rendezvous/connection.h"

#include <chrono>
#include <mutex>
#include <string>
#include <vector>

namespace ddprun {

class StoreClient {
 public:
  using Milliseconds = std::chrono::milliseconds;

  // Throws as Connection::open does.
  StoreClient(const Endpoint& endpoint, const Secret& secret, Milliseconds timeout);

  // These throw ConnectionLost if the server is gone or does not answer in time.
  void set(const std::string& key, const Bytes& value, Milliseconds timeout);
  void append(const std::string& key, const Bytes& value, Milliseconds timeout);
  std::vector<Bytes> get(const std::vector<std::string>& keys, Milliseconds timeout);  // waits until all are there
  void wait(const std::vector<std::string>& keys, Milliseconds timeout);
  int64_t add(const std::string& key, int64_t amount, Milliseconds timeout);
  Bytes compare_set(const std::string& key, const Bytes& expected, const Bytes& desired, Milliseconds timeout);
  bool remove(const std::string& key, Milliseconds timeout);
  bool check(const std::vector<std::string>& keys, Milliseconds timeout);
  int64_t count(const std::string& prefix, Milliseconds timeout);  // of the keys with this prefix

 private:
  Message ask(Message request, Milliseconds timeout);

  std::mutex mutex_;
  Connection connection_;
  int64_t last_number_ = 0;  // identifies answers that come too late
};

}  // namespace ddprun
