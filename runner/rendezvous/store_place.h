// SPDX-License-Identifier: MIT
// Where the ranks of an attempt meet, as given to a worker: DDPRUN_STORE, with DDPRUN_RENDEZVOUS_ID and DDPRUN_TOKEN.
#pragma once

#include "rendezvous/address.h"
#include "rendezvous/tls_channel.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

struct StorePlace {
  Endpoint endpoint;
  std::string prefix;  // of the attempt's keys

  std::string text() const;  // "tcp://node1:29400/attempt_0"
};

// Returns the prefix of an attempt's keys at the server.
std::string attempt_prefix(int attempt);

// Returns nothing if the text is a file's path instead.
std::optional<StorePlace> parse_store_place(const std::string& text);

Secret secret_from_environment();
std::vector<std::pair<std::string, std::string>> secret_variables(const Secret& secret);

}  // namespace ddprun
