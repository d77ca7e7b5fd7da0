// SPDX-License-Identifier: MIT
#include "comm/stores.h"

#include "base/communication_error.h"
#include "comm/communicator.h"
#include "rendezvous/address.h"
#include "rendezvous/store_client.h"

#include <ddprun/error.h>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace ddprun {
namespace {

using std::chrono::milliseconds;

// Prefixes each key with the attempt itself, instead of being wrapped in a c10d::PrefixStore: ProcessGroupNCCL unwraps
// those to reach the store beneath, where the next attempts would see a failed attempt's keys.
class RemoteStore final : public c10d::Store {
 public:
  RemoteStore(StorePlace place, Secret secret, milliseconds timeout)
      : Store(timeout),
        place_(std::move(place)),
        secret_(std::move(secret)),
        client_(place_.endpoint, secret_, timeout) {}

  using Store::set;

  c10::intrusive_ptr<Store> clone() override { return c10::make_intrusive<RemoteStore>(place_, secret_, timeout_); }

  void set(const std::string& key, const Bytes& value) override { client_.set(own(key), value, timeout_); }
  void append(const std::string& key, const Bytes& value) override { client_.append(own(key), value, timeout_); }
  Bytes get(const std::string& key) override { return client_.get({own(key)}, timeout_).front(); }
  int64_t add(const std::string& key, int64_t value) override { return client_.add(own(key), value, timeout_); }
  bool deleteKey(const std::string& key) override { return client_.remove(own(key), timeout_); }
  bool check(const std::vector<std::string>& keys) override { return client_.check(own(keys), timeout_); }
  int64_t getNumKeys() override { return client_.count(own(""), timeout_); }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const milliseconds& timeout) override {
    client_.wait(own(keys), timeout);
  }
  bool hasExtendedApi() const override { return true; }

  Bytes compareSet(const std::string& key, const Bytes& expected, const Bytes& desired) override {
    return client_.compare_set(own(key), expected, desired, timeout_);
  }

  std::vector<Bytes> multiGet(const std::vector<std::string>& keys) override {
    return client_.get(own(keys), timeout_);
  }

  void multiSet(const std::vector<std::string>& keys, const std::vector<Bytes>& values) override {
    for (size_t i = 0; i < keys.size(); ++i) set(keys[i], values.at(i));
  }

 private:
  std::string own(const std::string& key) const { return place_.prefix + "/" + key; }

  std::vector<std::string> own(std::vector<std::string> keys) const {
    for (auto& key : keys) key = own(key);
    return keys;
  }

  StorePlace place_;
  Secret secret_;
  StoreClient client_;
};

}  // namespace

c10::intrusive_ptr<c10d::Store> open_store(const std::string& place, int64_t world_size, double timeout_seconds) {
  const auto remote = parse_store_place(place);
  if (!remote) return file_store(place, world_size);
  const milliseconds timeout(static_cast<int64_t>(timeout_seconds * 1000));
  return c10::make_intrusive<RemoteStore>(*remote, secret_from_environment(), timeout);
}

namespace {

// Each restart has a key of its own, and each run of a script that starts several: the store outlives the workers.
std::string key_of(const Placement& placement) {
  return "ddprun/" + placement.job_id + "/" + std::to_string(placement.restart_count) + "/" +
         std::to_string(placement.earlier_runs) + "/meeting";
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
  throw UserError("the store of torchrun or torch.distributed at " + Endpoint{placement.host, placement.port}.text() +
                  " does not answer: " + cause_of(error));
}

}  // namespace

void publish_server(const Placement& placement, const FoundServer& server) {
  constexpr double kTimeoutSeconds = 60;
  const auto key = key_of(placement), place = server.endpoint.text() + " " + server.token;
  with_store(placement, kTimeoutSeconds, [&](c10d::Store& store) { store.set(key, place); });
}

FoundServer find_server(const Placement& placement, double timeout_seconds) {
  return with_store(placement, timeout_seconds, [&](c10d::Store& store) {
    const auto text = store.get_to_str(key_of(placement));
    const auto blank = std::min(text.find(' '), text.size());
    return FoundServer{parse_endpoint({"the endpoint of rank 0", text.substr(0, blank)}, 0),
                       text.substr(std::min(blank + 1, text.size()))};
  });
}

}  // namespace ddprun
