// SPDX-License-Identifier: MIT
#include "metrics/logger_hub.h"

#include "base/log.h"
#include "plugin_host/plugin_call.h"

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>

namespace ddprun {
namespace {

// Limits what may wait for a logger: calls, and the bytes they hold.
constexpr size_t kMostCalls = 10'000;
constexpr size_t kMostBytes = size_t{256} << 20;
constexpr auto kPatience = std::chrono::seconds(5);  // for a logger that hangs, at a checkpoint and at the end

// The time for which an idle logger lets rows gather before it looks again: waking it for each of some thousand rows a
// second would cost the training several microseconds per step.
constexpr auto kNap = std::chrono::milliseconds(20);

constexpr size_t kThreadName = 15;  // characters of a thread's name that Linux keeps

template <class T>
size_t bytes_of(const std::vector<T>& values) {
  return values.size() * sizeof(T);
}

size_t bytes_of(const MetricRow& row) { return sizeof row + bytes_of(row.values); }

size_t bytes_of(const ConfusionTable& table) { return bytes_of(table.class_names) + bytes_of(table.counts); }

size_t bytes_of(const PredictionTable& table) {
  size_t bytes = bytes_of(table.class_names) + bytes_of(table.rows);
  for (const auto& row : table.rows)
    bytes += row.image.bytes.size() + row.output.bytes.size() + bytes_of(row.scores) + bytes_of(row.true_values);
  return bytes;
}

size_t bytes_of(const HistogramTable& table) {
  size_t bytes = bytes_of(table.histograms);
  for (const auto& histogram : table.histograms) bytes += bytes_of(histogram.edges) + bytes_of(histogram.counts);
  return bytes;
}

size_t bytes_of(const RankTable& table) {
  size_t bytes = bytes_of(table.columns);
  for (const auto& row : table.rows) bytes += bytes_of(row);
  return bytes;
}

}  // namespace

// Runs a logger on its own thread. Its state outlives the channel if the logger hangs: the thread is then left behind
// and still needs it.
class LoggerHub::Channel {
 public:
  struct Call {
    const char* hook;
    std::function<void(Logger&)> run;
    size_t bytes = 0;  // held by its tables and rows
  };

  explicit Channel(Entry entry) : state_(std::make_shared<State>(std::move(entry))) {
    thread_ = std::thread([state = state_] { state->work(); });
    pthread_setname_np(thread_.native_handle(), ("log " + state_->entry.name).substr(0, kThreadName).c_str());
  }

  ~Channel() {
    {
      std::scoped_lock lock(state_->mutex);
      state_->closing = true;
    }
    if (drained()) {
      thread_.join();
      return;
    }
    thread_.detach();
    std::scoped_lock lock(state_->mutex);
    state_->tell_of_loss();
  }

  // Queues a call; `urgent` if somebody waits for it.
  void post(Call call, bool urgent = false) {
    {
      std::scoped_lock lock(state_->mutex);
      if (state_->broken) return;
      state_->hurry |= urgent;
      if (!state_->has_room(call.bytes)) return state_->drop(call);
      state_->waiting_bytes += call.bytes;
      state_->calls.push_back(std::move(call));
      if (!state_->asleep && !urgent) return;
    }
    state_->arrived.notify_one();
  }

  bool idle() {
    std::scoped_lock lock(state_->mutex);
    return state_->calls.empty() && !state_->busy;
  }

  // Starts a flush and returns a function that waits for it. A dropped call, as after a failure of the logger, keeps
  // nobody waiting: its promise is dropped with it.
  std::function<void()> start_flush() {
    const auto done = std::make_shared<std::promise<void>>();
    const bool hangs = flushed_.valid() && flushed_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
    const auto earlier = flushed_;
    flushed_ = done->get_future().share();
    post({"flush", [done](Logger& logger) { logger.flush(), done->set_value(); }}, /*urgent=*/true);
    return [flushed = flushed_, earlier, hangs, name = state_->entry.name] {
      if (hangs && earlier.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
      if (flushed.wait_for(kPatience) != std::future_status::ready)
        log::warn("logger " + name + " hangs; training continues without waiting for it");
    };
  }

 private:
  struct State {
    explicit State(Entry one) : entry(std::move(one)) {}

    void work() {
      std::unique_lock lock(mutex);
      while (wait_for_calls(lock)) {
        const auto call = std::move(calls.front());
        calls.pop_front();
        waiting_bytes -= call.bytes;
        busy = true;
        lock.unlock();
        const bool failed = !run(call);
        lock.lock();
        busy = false;
        if (failed) {
          broken = true;
          calls.clear();
          waiting_bytes = 0;
        }
        if (!calls.empty()) continue;
        tell_of_loss();
        drained.notify_all();
      }
    }

    // Returns whether a call may be queued; an empty queue takes one of any size.
    bool has_room(size_t bytes) const {
      return calls.empty() || (calls.size() < kMostCalls && waiting_bytes + bytes <= kMostBytes);
    }

    void drop(const Call& call) {
      if (lost_calls == 0)
        log::warn(log::text("logger ", entry.name, " is too slow: ", calls.size(), " rows and tables (",
                            megabytes(waiting_bytes), ") are waiting; new ones are dropped until it catches up"));
      ++lost_calls;
      lost_bytes += call.bytes;
    }

    // Reports lost calls, when the logger has caught up or at the end.
    void tell_of_loss() {
      if (lost_calls > 0)
        log::warn(
            log::text("logger ", entry.name, " lost ", lost_calls, " rows and tables (", megabytes(lost_bytes), ")"));
      lost_calls = lost_bytes = 0;
    }

    static std::string megabytes(size_t bytes) { return log::text((bytes + 500'000) / 1'000'000, " MB"); }

    // Returns false if no more calls will come.
    bool wait_for_calls(std::unique_lock<std::mutex>& lock) {
      hurry = hurry && !calls.empty();
      if (calls.empty()) arrived.wait_for(lock, kNap, [&] { return closing || hurry; });
      asleep = calls.empty();
      arrived.wait(lock, [&] { return closing || !calls.empty(); });
      asleep = false;
      return !calls.empty();
    }

    bool run(const Call& call) {
      try {
        in_plugin({entry.section.c_str(), call.hook}, [&] { call.run(*entry.logger); });
        return true;
      } catch (const FromPlugin& error) {
        leave_out(error.problem);
      } catch (const std::exception& error) {
        leave_out(error.what());
      }
      return false;
    }

    void leave_out(const std::string& problem) const {
      log::warn("logger " + entry.name + " failed and is disabled: " + problem);
    }

    Entry entry;
    std::mutex mutex;
    std::condition_variable arrived, drained;
    std::deque<Call> calls;
    size_t waiting_bytes = 0;               // held by the calls
    size_t lost_calls = 0, lost_bytes = 0;  // since the last report
    bool busy = false, broken = false, closing = false;
    bool asleep = false;  // until woken; otherwise it looks again by itself
    bool hurry = false;   // somebody waits for the queue
  };

  bool drained() {
    std::unique_lock lock(state_->mutex);
    state_->arrived.notify_one();
    return state_->drained.wait_for(lock, kPatience, [&] { return state_->calls.empty() && !state_->busy; });
  }

  std::shared_ptr<State> state_;
  std::shared_future<void> flushed_;  // the last flush
  std::thread thread_;
};

LoggerHub::LoggerHub(std::vector<Entry> loggers) {
  for (auto& entry : loggers) channels_.push_back(std::make_unique<Channel>(std::move(entry)));
}

LoggerHub::~LoggerHub() = default;

void LoggerHub::start(const RunStart& run) {
  for (auto& channel : channels_) channel->post({"start", [run](Logger& logger) { logger.start(run); }});
}

void LoggerHub::metrics(MetricRow row) {
  const auto shared = std::make_shared<const MetricRow>(std::move(row));
  const auto bytes = bytes_of(*shared);
  for (auto& channel : channels_)
    channel->post({"metrics", [shared](Logger& logger) { logger.metrics(*shared); }, bytes});
}

void LoggerHub::progress(const RunProgress& progress) {
  for (auto& channel : channels_) {
    if (channel->idle()) channel->post({"progress", [progress](Logger& logger) { logger.progress(progress); }});
  }
}

void LoggerHub::confusion(const ConfusionTable& table) {
  const auto shared = std::make_shared<const ConfusionTable>(table);
  const auto bytes = bytes_of(table);
  for (auto& channel : channels_)
    channel->post({"confusion", [shared](Logger& logger) { logger.confusion(*shared); }, bytes});
}

// Shares one copy of the images, which are large, between all loggers.
void LoggerHub::predictions(const PredictionTable& table) {
  const auto shared = std::make_shared<const PredictionTable>(table);
  const auto bytes = bytes_of(table);
  for (auto& channel : channels_)
    channel->post({"predictions", [shared](Logger& logger) { logger.predictions(*shared); }, bytes});
}

void LoggerHub::histograms(const HistogramTable& table) {
  const auto shared = std::make_shared<const HistogramTable>(table);
  const auto bytes = bytes_of(table);
  for (auto& channel : channels_)
    channel->post({"histograms", [shared](Logger& logger) { logger.histograms(*shared); }, bytes});
}

void LoggerHub::ranks(const RankTable& table) {
  const auto shared = std::make_shared<const RankTable>(table);
  const auto bytes = bytes_of(table);
  for (auto& channel : channels_) channel->post({"ranks", [shared](Logger& logger) { logger.ranks(*shared); }, bytes});
}

void LoggerHub::event(const RunEvent& event) {
  for (auto& channel : channels_) channel->post({"event", [event](Logger& logger) { logger.event(event); }});
}

std::function<void()> LoggerHub::start_flush() {
  std::vector<std::function<void()>> waits;
  for (auto& channel : channels_) waits.push_back(channel->start_flush());
  return [waits] {
    for (const auto& wait : waits) wait();
  };
}

void LoggerHub::finish(const RunEnd& end) {
  for (auto& channel : channels_) channel->post({"finish", [end](Logger& logger) { logger.finish(end); }});
  flush();
}

}  // namespace ddprun
