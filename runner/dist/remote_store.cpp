// SPDX-License-Identifier: MIT
#include "dist/remote_store.h"

#include "dist/communicator.h"
#include "rendezvous/store_client.h"
#include "rendezvous/store_place.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <utility>

namespace ddprun {
namespace {

using std::chrono::milliseconds;

class RemoteStore final : public c10d::Store {
 public:
  RemoteStore(Endpoint endpoint, Secret secret, milliseconds timeout)
      : Store(timeout),
        endpoint_(std::move(endpoint)),
        secret_(std::move(secret)),
        client_(endpoint_, secret_, timeout) {}

  using Store::set;

  c10::intrusive_ptr<Store> clone() override { return c10::make_intrusive<RemoteStore>(endpoint_, secret_, timeout_); }

  void set(const std::string& key, const Bytes& value) override { client_.set(key, value, timeout_); }
  void append(const std::string& key, const Bytes& value) override { client_.append(key, value, timeout_); }
  Bytes get(const std::string& key) override { return client_.get({key}, timeout_).front(); }
  int64_t add(const std::string& key, int64_t value) override { return client_.add(key, value, timeout_); }
  bool deleteKey(const std::string& key) override { return client_.remove(key, timeout_); }
  bool check(const std::vector<std::string>& keys) override { return client_.check(keys, timeout_); }
  int64_t getNumKeys() override { return client_.count(timeout_); }
  void wait(const std::vector<std::string>& keys) override { client_.wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const milliseconds& timeout) override { client_.wait(keys, timeout); }
  bool hasExtendedApi() const override { return true; }

  Bytes compareSet(const std::string& key, const Bytes& expected, const Bytes& desired) override {
    return client_.compare_set(key, expected, desired, timeout_);
  }

  std::vector<Bytes> multiGet(const std::vector<std::string>& keys) override { return client_.get(keys, timeout_); }

  void multiSet(const std::vector<std::string>& keys, const std::vector<Bytes>& values) override {
    for (size_t i = 0; i < keys.size(); ++i) set(keys[i], values.at(i));
  }

 private:
  Endpoint endpoint_;
  Secret secret_;
  StoreClient client_;
};

}  // namespace

c10::intrusive_ptr<c10d::Store> open_store(const std::string& place, int64_t world_size, double timeout_seconds) {
  const auto remote = parse_store_place(place);
  if (!remote) return file_store(place, world_size);
  const milliseconds timeout(static_cast<int64_t>(timeout_seconds * 1000));
  auto store = c10::make_intrusive<RemoteStore>(remote->endpoint, secret_from_environment(), timeout);
  return c10::make_intrusive<c10d::PrefixStore>(remote->prefix, store);
}

}  // namespace ddprun
