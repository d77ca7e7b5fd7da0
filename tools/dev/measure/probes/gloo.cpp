// SPDX-License-Identifier: MIT
#include "comm/communicator.h"
#include "probes.h"
#include "process_cost.h"

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include <atomic>
#include <barrier>
#include <cstdlib>
#include <thread>

namespace ddprun::scaling {
namespace {

using Bytes = std::vector<uint8_t>;

struct Asked {
  std::atomic<int64_t> requests = 0, keys = 0, bytes_set = 0, bytes_got = 0;
};

// A store in memory that counts what is asked of it; every rank has one of its own, as every worker has a connection.
class CountingStore final : public c10d::Store {
 public:
  CountingStore(c10::intrusive_ptr<c10d::Store> store, Asked& asked) : store_(std::move(store)), asked_(asked) {}

  using Store::set;

  c10::intrusive_ptr<Store> clone() override { return c10::make_intrusive<CountingStore>(store_, asked_); }
  void set(const std::string& key, const Bytes& value) override {
    ++asked_.requests;
    asked_.bytes_set += static_cast<int64_t>(value.size());
    store_->set(key, value);
  }
  Bytes get(const std::string& key) override { return count(store_->get(key)); }
  int64_t add(const std::string& key, int64_t value) override { return ++asked_.requests, store_->add(key, value); }
  bool deleteKey(const std::string& key) override { return ++asked_.requests, store_->deleteKey(key); }
  bool check(const std::vector<std::string>& keys) override { return ++asked_.requests, store_->check(keys); }
  int64_t getNumKeys() override { return ++asked_.requests, store_->getNumKeys(); }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override {
    ++asked_.requests;
    store_->wait(keys, timeout);
  }
  bool hasExtendedApi() const override { return true; }  // as ours over the network
  std::vector<Bytes> multiGet(const std::vector<std::string>& keys) override {
    std::vector<Bytes> values;
    for (const auto& key : keys) values.push_back(count(store_->get(key)));
    asked_.requests -= static_cast<int64_t>(keys.size()) - 1;  // one request for all
    return values;
  }

 private:
  Bytes count(Bytes value) {
    ++asked_.requests;
    ++asked_.keys;
    asked_.bytes_got += static_cast<int64_t>(value.size());
    return value;
  }

  c10::intrusive_ptr<c10d::Store> store_;
  Asked& asked_;
};

constexpr int kSums = 20;

// Called between the parts of the probe, while all ranks wait: after joining, after the first sum, after kSums more.
class Measurement {
 public:
  explicit Measurement(int ranks) : ranks_(ranks) {}

  void next_part() {
    switch (part_++) {
      case 0: joined(); break;
      case 1: connected(); break;
      default: summed();
    }
  }

  const nlohmann::json& figures() const { return figures_; }

 private:
  void joined() {
    figures_["join_seconds"] = watch_.seconds();
    figures_["join_cpu_seconds"] = cpu_seconds() - cpu_before_;
  }

  void connected() {
    figures_["files_per_rank"] = static_cast<double>(open_files() - files_before_) / ranks_;
    figures_["threads_per_rank"] = static_cast<double>(status_number("Threads") - 1) / ranks_ - 1;
    figures_["bytes_per_rank"] = (status_number("VmRSS") - rss_before_) / ranks_;
    watch_ = Stopwatch();
    cpu_before_ = cpu_seconds();
  }

  void summed() {
    figures_["sum_seconds"] = watch_.seconds() / kSums;
    figures_["sum_cpu_seconds"] = (cpu_seconds() - cpu_before_) / kSums;
  }

  int ranks_, part_ = 0;
  int64_t files_before_ = open_files(), rss_before_ = status_number("VmRSS");
  double cpu_before_ = cpu_seconds();
  Stopwatch watch_;
  nlohmann::json figures_;
};

}  // namespace

nlohmann::json probe_gloo(int ranks) {
  raise_file_limit();
  setenv("TORCH_FR_BUFFER_SIZE", "0", 1);  // c10d's flight recorder is one for all threads, and not made for that
  const auto memory = c10::make_intrusive<c10d::HashStore>();
  Asked asked;
  Measurement measurement(ranks);
  std::barrier together(ranks, [&]() noexcept { measurement.next_part(); });
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      Communicator communicator({.world = {rank, ranks, rank, ranks},
                                 .store = c10::make_intrusive<CountingStore>(memory, asked),
                                 .timeout_seconds = 600});
      together.arrive_and_wait();
      auto flags = at::zeros({4}, at::kInt);
      communicator.sum(flags);
      together.arrive_and_wait();
      for (int i = 0; i < kSums; ++i) communicator.sum(flags);
      together.arrive_and_wait();
    });
  }
  threads.clear();
  auto figures = measurement.figures();
  const auto each = [&](const std::atomic<int64_t>& total) { return static_cast<double>(total) / ranks; };
  figures["requests_per_rank"] = each(asked.requests);
  figures["value_bytes"] = each(asked.bytes_set);
  figures["read_bytes_per_rank"] = each(asked.bytes_got);
  return figures;
}

}  // namespace ddprun::scaling
