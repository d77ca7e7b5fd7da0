// SPDX-License-Identifier: MIT
// The keys and values through which the workers of an attempt find each other, with requests that wait for keys to
// appear. Has no sockets and no clock. The operations are those of c10d's stores.
#pragma once

#include "rendezvous/message.h"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace ddprun {

class KeyValues {
 public:
  using Answer = std::function<void(Message)>;

  // Executes {op, key, ...} and answers at once, or when the keys that it waits for are there. `asker` identifies the
  // client for forget(). Throws ProtocolError for an unknown operation or missing parts.
  void request(int asker, const Message& request, Answer answer);

  void forget(int asker);                // drops its waiting requests
  void drop(const std::string& prefix);  // drops all keys with this prefix
  size_t size() const { return values_.size(); }

 private:
  struct Waiting {
    int asker;
    std::vector<std::string> missing;  // keys still to come; the next to look for is the last
    Answer answer;
    bool wants_values;
    std::vector<std::string> keys;
  };

  void carry_out(int asker, const Message& request, Answer answer);
  void store(const std::string& key, Bytes value);
  void wait(Waiting waiting);
  bool has_all(Waiting& waiting) const;
  void answer(const Waiting& waiting) const;
  int64_t count(const std::string& prefix) const;
  int64_t add(const std::string& key, int64_t amount);
  Bytes compare_and_set(const std::string& key, const Bytes& expected, Bytes desired);

  std::map<std::string, Bytes> values_;
  std::multimap<std::string, Waiting> waiting_;  // by next missing key
};

}  // namespace ddprun
