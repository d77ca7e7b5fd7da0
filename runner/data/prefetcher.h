// SPDX-License-Identifier: MIT
// Produces numbered items ahead of their use on its own threads, and returns them in order.
#pragma once

#include <ATen/Parallel.h>
#include <omp.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun {

// Calls `produce(n)` once for each n in [first, end), from several threads at once and in no fixed order; next()
// returns the items in order, to one consumer. At most `depth` items are ready or in production. What produce throws,
// next() throws when that item's turn comes. Without threads, next() itself calls produce. LibTorch's operations run on
// one core in each of the threads: teams of their own would take the cores from one another and from training.
template <class Item>
class Prefetcher {
 public:
  using Produce = std::function<Item(int64_t)>;

  Prefetcher(int64_t first, int64_t end, int64_t threads, int64_t depth, Produce produce)
      : next_out_(first), next_in_(first), end_(end), depth_(depth), produce_(std::move(produce)) {
    for (int64_t i = 0; i < threads; ++i) threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }

  ~Prefetcher() {
    for (auto& thread : threads_) thread.request_stop();
    room_.notify_all();
  }  // the threads are the last member: they end before what they use is gone

  // Begins no further item. Returns whether the threads have ended within `limit`; where they have not, the destructor
  // waits for them.
  bool stop_within(std::chrono::milliseconds limit) {
    for (auto& thread : threads_) thread.request_stop();
    room_.notify_all();
    std::unique_lock lock(mutex_);
    return arrived_.wait_for(lock, limit, [&] { return in_the_making_ == 0; });
  }

  bool done() const { return next_out_ == end_; }

  // Returns how many of the next items are ready, up to `most`; without threads, which no consumer waits for, `most`.
  int64_t ready(int64_t most) const {
    if (threads_.empty()) return most;
    const std::scoped_lock lock(mutex_);
    int64_t count = 0;
    while (count < most && ready_.contains(next_out_ + count)) ++count;
    return count;
  }

  Item next() { return *next_unless({}); }

  // Does the same, or returns nothing and keeps the item's turn once `give_up` returns true while the item is not
  // ready; it is asked about 20 times a second. Without threads nothing is given up.
  std::optional<Item> next_unless(const std::function<bool()>& give_up) {
    const int64_t number = next_out_;
    if (threads_.empty()) return produce_(next_out_++);
    std::unique_lock lock(mutex_);
    const auto is_ready = [&] { return ready_.contains(number); };
    if (!give_up) arrived_.wait(lock, is_ready);
    while (!arrived_.wait_for(lock, std::chrono::milliseconds(50), is_ready)) {
      if (give_up()) return std::nullopt;
    }
    ++next_out_;
    auto outcome = std::move(ready_.extract(number).mapped());
    lock.unlock();
    room_.notify_one();
    if (auto* error = std::get_if<std::exception_ptr>(&outcome)) std::rethrow_exception(*error);
    return std::move(std::get<Item>(outcome));
  }

 private:
  using Outcome = std::variant<Item, std::exception_ptr>;

  void work(const std::stop_token& stop) {
    at::get_num_threads();  // sets the thread's number as for all, once; after that it can be changed
    omp_set_num_threads(1);
    while (const auto number = claim(stop)) {
      auto outcome = attempt(*number);
      {
        std::scoped_lock lock(mutex_);
        --in_the_making_;
        ready_.emplace(*number, std::move(outcome));
      }
      arrived_.notify_one();
    }
  }

  // Returns the next number to produce, once there is room for it, or nothing when all are claimed or it is to stop.
  std::optional<int64_t> claim(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    const auto has_room = [&] { return static_cast<int64_t>(ready_.size()) + in_the_making_ < depth_; };
    room_.wait(lock, stop, [&] { return next_in_ == end_ || has_room(); });
    if (stop.stop_requested() || next_in_ == end_) return std::nullopt;
    ++in_the_making_;
    return next_in_++;
  }

  Outcome attempt(int64_t number) {
    try {
      return produce_(number);
    } catch (...) {
      return std::current_exception();
    }
  }

  int64_t next_out_;
  int64_t next_in_;
  int64_t end_;
  int64_t depth_;
  int64_t in_the_making_ = 0;
  Produce produce_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::condition_variable_any room_;
  std::map<int64_t, Outcome> ready_;
  std::vector<std::jthread> threads_;
};

// Ends a loader, or another owner of a Prefetcher with stop_within(). Where its threads wait for samples that do not
// come, another thread waits for them, until the process ends.
template <class Loader>
void drop(std::unique_ptr<Loader>& loader) {
  if (loader && !loader->stop_within(std::chrono::seconds(1))) std::thread([waiting = std::move(loader)] {}).detach();
  loader.reset();
}

}  // namespace ddprun
