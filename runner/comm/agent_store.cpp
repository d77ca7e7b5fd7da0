// SPDX-License-Identifier: MIT
#include "comm/agent_store.h"

#include "base/communication_error.h"

#include <ddprun/error.h>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <chrono>
#include <string>

namespace ddprun {
namespace {

// Each restart has a key of its own: the store outlives the workers.
std::string key_of(const Placement& placement) {
  return "ddprun/" + placement.job_id + "/" + std::to_string(placement.restart_count) + "/endpoint";
}

template <class Use>
auto with_store(const Placement& placement, double timeout_seconds, const Use& use) try {
  c10d::TCPStoreOptions options;
  options.port = static_cast<uint16_t>(placement.port);
  options.isServer = false;
  options.waitWorkers = false;
  options.timeout = std::chrono::milliseconds(static_cast<int64_t>(timeout_seconds * 1000));
  c10d::TCPStore store(placement.host, options);
  return use(store);
} catch (const std::exception& error) {
  throw UserError("torchrun's store at " + Endpoint{placement.host, placement.port}.text() +
                  " does not answer: " + cause_of(error));
}

}  // namespace

void publish_endpoint(const Placement& placement, const Endpoint& endpoint) {
  constexpr double kTimeoutSeconds = 60;
  with_store(placement, kTimeoutSeconds, [&](c10d::Store& store) { store.set(key_of(placement), endpoint.text()); });
}

Endpoint find_endpoint(const Placement& placement, double timeout_seconds) {
  return with_store(placement, timeout_seconds, [&](c10d::Store& store) {
    return parse_endpoint({"the endpoint of rank 0", store.get_to_str(key_of(placement))}, 0);
  });
}

}  // namespace ddprun
