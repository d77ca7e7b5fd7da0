// SPDX-License-Identifier: MIT
#include "metrics/logger_hub.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/run_files.h"
#include "plugin_host/plugin_call.h"

#include <ddprun/file_error.h>

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <deque>
#include <future>
#include <iterator>
#include <list>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

namespace ddprun {
namespace {

// Limits what may wait for a logger: calls, and the bytes they hold.
constexpr size_t kMostCalls = 10'000;
constexpr size_t kMostBytes = size_t{256} << 20;
// The time between two tries to write what the disk did not take; the second while somebody waits for it.
constexpr std::chrono::milliseconds kRetry{2000}, kHurriedRetry{100};

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

// What comes once, or seldom, and is short, holds nothing that counts.
template <class Row>
size_t bytes_of(const Row& /*row*/) {
  return 0;
}

}  // namespace

// What the loggers' threads have to report, until the training's thread makes events of it.
class LoggerHub::News {
 public:
  void add(std::string text) {
    const std::scoped_lock lock(mutex_);
    texts_.push_back(std::move(text));
  }
  std::vector<std::string> take() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(texts_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> texts_;
};

// Runs a logger on its own thread. Its state outlives the channel if the logger hangs: the thread is then left behind
// and still needs it.
class LoggerHub::Channel {
 public:
  struct Call {
    std::string_view hook;  // a literal
    std::function<void(Logger&)> run;
    size_t bytes = 0;  // held by its tables and rows
  };

  Channel(Entry entry, std::shared_ptr<News> news, std::chrono::milliseconds patience)
      : patience_(patience), state_(std::make_shared<State>(std::move(entry), std::move(news))) {
    thread_ = std::thread([state = state_] { state->work(); });
    pthread_setname_np(thread_.native_handle(), ("log " + state_->entry.name).substr(0, kThreadName).c_str());
  }

  // Without close(), the run has failed: it writes again what is owed when it is resumed.
  ~Channel() {
    {
      std::scoped_lock lock(state_->mutex);
      state_->closing = state_->over = true;
    }
    if (!left_behind_ && drained()) {
      thread_.join();
      return;
    }
    thread_.detach();
    std::scoped_lock lock(state_->mutex);
    state_->report_loss();
  }

  // Queues a call; `urgent` if somebody waits for it.
  void post(Call call, bool urgent = false) {
    {
      std::scoped_lock lock(state_->mutex);
      if (state_->broken) return state_->lose(call);
      if (urgent) state_->hurry = true, state_->retry_at = std::min(state_->retry_at, Clock::now());
      if (!state_->has_room(call.bytes)) return state_->drop(call);
      state_->waiting_bytes += call.bytes;
      state_->calls.push_back(std::move(call));
      if (!state_->asleep && !urgent) return;
    }
    state_->arrived.notify_one();
  }

  // To be called before the first post().
  void hold(std::shared_ptr<const HeldFolder> run_dir) { state_->run_dir = std::move(run_dir); }

  bool idle() {
    std::scoped_lock lock(state_->mutex);
    return state_->is_drained();
  }

  // Starts a flush and returns a function that waits for it. A dropped call, as after a failure of the logger, keeps
  // nobody waiting: its promise is dropped with it. One that owes rows is waited for once, and at the run's end.
  std::function<void()> start_flush(bool at_end = false) {
    const auto done = std::make_shared<std::promise<void>>();
    const bool hangs = flushed_.valid() && flushed_.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
    const auto earlier = flushed_;
    flushed_ = done->get_future().share();
    post({"flush", [done](Logger& logger) { logger.flush(), done->set_value(); }}, /*urgent=*/true);
    return [flushed = flushed_, earlier, hangs, at_end, patience = patience_, state = state_] {
      const bool waits_again = at_end && state->entry.keeps && state->owes();
      if (hangs && !waits_again && earlier.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
      if (flushed.wait_for(patience) == std::future_status::ready || state->owes()) return;  // that has been reported
      log::warn("logger " + state->entry.name + " hangs; training continues without waiting for it");
    };
  }

  // Ends the waiting for the disk: what is owed is lost. Then waits for the rest.
  void close() {
    {
      std::scoped_lock lock(state_->mutex);
      state_->over = true;
    }
    left_behind_ = !drained();
  }

  std::optional<LoggerTrouble> trouble() const {
    std::scoped_lock lock(state_->mutex);
    return state_->trouble();
  }

 private:
  using Clock = std::chrono::steady_clock;

  struct State {
    State(Entry one, std::shared_ptr<News> shared) : entry(std::move(one)), news(std::move(shared)) {}

    void work() {
      std::unique_lock lock(mutex);
      while (wait_for_calls(lock)) {
        if (!owed.empty() && (calls.empty() || Clock::now() >= retry_at)) {
          pay(lock);
        } else {
          take_next(lock);
        }
        if (!is_drained()) continue;
        report_loss();
        drained.notify_all();
      }
    }

    void take_next(std::unique_lock<std::mutex>& lock) {
      auto call = std::move(calls.front());
      calls.pop_front();
      if (given_up.contains(call.hook) || (call.hook == "progress" && !owed.empty())) return forget(call, true);
      in_hand = counts(call) ? 1 : 0;
      const bool waits = std::ranges::any_of(owed, [&](const Call& other) { return is_behind(call, other); });
      if (waits || !run(lock, call)) owed.push_back(std::move(call));
      in_hand = 0;
    }

    // Returns whether a call has to wait for one that is owed: nothing comes before the start nor after the end, and
    // the rows of each hook keep their order.
    static bool is_behind(const Call& call, const Call& other) {
      return call.hook == other.hook || other.hook == "start" || call.hook == "flush" || call.hook == "finish";
    }

    // Tries what is owed again; what still fails stays.
    void pay(std::unique_lock<std::mutex>& lock) {
      for (auto call = owed.begin(); call != owed.end();) {
        const bool is_lost = over || broken || given_up.contains(call->hook);
        if (is_lost) forget(*call, true);
        const auto waits = [&](const Call& other) { return is_behind(*call, other); };
        const bool stays = !is_lost && (std::any_of(owed.begin(), call, waits) || !run(lock, *call));
        call = stays ? std::next(call) : owed.erase(call);
      }
      retry_at = Clock::now() + (hurry ? kHurriedRetry : kRetry);
      if (!owed.empty() || broken || !given_up.empty() || lost > 0) return;
      report("logger " + entry.name + " has written what it owed", /*warning=*/false);
      problem.clear();
    }

    // Runs a call. Returns false if it is to be tried again.
    bool run(std::unique_lock<std::mutex>& lock, const Call& call) {
      busy = true;
      lock.unlock();
      const auto failure = attempt(call);
      lock.lock();
      busy = false;
      if (!failure) return forget(call, false), true;
      const bool again = may_pass(failure->error);
      if (failure->is_gone)
        return problem = failure->problem, forget(call, true), true;  // the next checkpoint reports it
      if (again) {
        if (owed.empty()) begin_to_owe(failure->problem);
      } else if (failure->of_files && call.hook != "start") {
        given_up.emplace(call.hook);
        report(log::text("logger ", entry.name, ": ", failure->problem, "; its ", call.hook,
                         " are left out from here on"));
      } else {
        broken = true;
        report("logger " + entry.name + " failed and is disabled: " + failure->problem);
      }
      problem = failure->problem;
      if (again) return false;
      forget(call, true);
      if (!broken) return true;
      for (const auto& left : calls) forget(left, true);
      calls.clear();
      return true;
    }

    void begin_to_owe(const std::string& cause) {
      if (!over) report("logger " + entry.name + ": " + cause + "; it is tried again until it succeeds");
      retry_at = Clock::now() + (hurry ? kHurriedRetry : kRetry);
    }

    struct Failure {
      std::string problem;
      int error = 0;          // an errno, where the system refused something
      bool of_files = false;  // it refused a file
      bool is_gone = false;   // the run's folder
    };

    std::optional<Failure> attempt(const Call& call) const {
      Failure failure;
      if (entry.keeps && run_dir && !run_dir->is_there())
        return Failure{.problem = run_dir->problem(), .is_gone = true};
      try {
        in_plugin({entry.section.c_str(), call.hook.data()}, [&] {
          try {
            call.run(*entry.logger);
          } catch (const FileError& error) {
            failure.error = error.error(), failure.of_files = true;
            throw;
          } catch (const std::system_error& error) {
            failure.error = error.code().value();
            throw;
          }
        });
        return std::nullopt;
      } catch (const FromPlugin& error) {
        failure.problem = error.problem;
      } catch (const std::exception& error) {
        failure.problem = error.what();
      }
      return failure;
    }

    // Ends what is known of a call, which was done or is lost.
    void forget(const Call& call, bool is_lost) {
      waiting_bytes -= call.bytes;
      if (is_lost) lose(call);
    }

    static bool counts(const Call& call) { return call.hook != "progress" && call.hook != "flush"; }

    void lose(const Call& call) { lost += counts(call) ? 1 : 0; }

    // Returns whether a call may be queued; an empty queue takes one of any size.
    bool has_room(size_t bytes) const {
      const auto waiting = calls.size() + owed.size();
      return waiting == 0 || (waiting < kMostCalls && waiting_bytes + bytes <= kMostBytes);
    }

    void drop(const Call& call) {
      if (lost_calls == 0)
        report(log::text(
            "logger ", entry.name, owed.empty() ? " is too slow: " : " cannot write: ", calls.size() + owed.size(),
            " rows and tables (", megabytes(waiting_bytes), ") are waiting; new ones are dropped until it catches up"));
      if (problem.empty()) problem = "it was too slow";
      ++lost_calls;
      lost_bytes += call.bytes;
      lose(call);
    }

    // Reports lost calls, when the logger has caught up or at the end.
    void report_loss() {
      if (lost_calls > 0)
        report(
            log::text("logger ", entry.name, " lost ", lost_calls, " rows and tables (", megabytes(lost_bytes), ")"));
      lost_calls = lost_bytes = 0;
    }

    void report(const std::string& text, bool warning = true) const {
      warning ? log::warn(text) : log::info(text);
      news->add(text);
    }

    std::optional<LoggerTrouble> trouble() const {
      const auto missing = lost + in_hand + static_cast<size_t>(std::ranges::count_if(calls, counts)) +
                           static_cast<size_t>(std::ranges::count_if(owed, counts));
      if (missing == 0 && !broken && given_up.empty()) return std::nullopt;
      return LoggerTrouble{.logger = entry.name,
                           .lost = entry.keeps ? static_cast<int64_t>(missing) : 0,
                           .problem = problem.empty() ? "it hangs" : problem};
    }

    bool owes() {
      std::scoped_lock lock(mutex);
      return !owed.empty();
    }

    bool is_drained() const { return calls.empty() && owed.empty() && !busy; }

    static std::string megabytes(size_t bytes) { return log::text((bytes + 500'000) / 1'000'000, " MB"); }

    // Returns false if no more calls will come.
    bool wait_for_calls(std::unique_lock<std::mutex>& lock) {
      hurry = hurry && !(calls.empty() && owed.empty());
      if (calls.empty() && owed.empty()) arrived.wait_for(lock, kNap, [&] { return closing || hurry; });
      asleep = calls.empty();
      if (owed.empty()) {
        arrived.wait(lock, [&] { return closing || !calls.empty(); });
      } else {
        while (calls.empty() && !over && Clock::now() < retry_at) arrived.wait_until(lock, retry_at);
      }
      asleep = false;
      return !calls.empty() || !owed.empty();
    }

    Entry entry;
    std::shared_ptr<News> news;
    std::shared_ptr<const HeldFolder> run_dir;  // null: none is known
    mutable std::mutex mutex;
    std::condition_variable arrived, drained;
    std::deque<Call> calls;                 // to be run
    std::list<Call> owed;                   // to be run again; changed by the logger's thread alone
    std::set<std::string_view> given_up;    // hooks whose files cannot be written
    std::string problem;                    // the last failure, until all is written
    size_t lost = 0, in_hand = 0;           // calls with rows, tables or events; of these the one that is run
    size_t waiting_bytes = 0;               // held by the calls
    size_t lost_calls = 0, lost_bytes = 0;  // dropped since the last report
    Clock::time_point retry_at;             // when to try again what is owed
    bool busy = false, broken = false, closing = false;
    bool over = false;    // what is owed is not waited for any more
    bool asleep = false;  // until woken; otherwise it looks again by itself
    bool hurry = false;   // somebody waits for the queue
  };

  bool drained() {
    std::unique_lock lock(state_->mutex);
    state_->arrived.notify_one();
    return state_->drained.wait_for(lock, patience_, [&] { return state_->is_drained(); });
  }

  std::chrono::milliseconds patience_;
  std::shared_ptr<State> state_;
  std::shared_future<void> flushed_;  // the last flush
  std::thread thread_;
  bool left_behind_ = false;  // it hung at the end
};

std::string LoggerTrouble::text() const {
  const auto what = lost > 0 ? log::text(" lost ", lost, lost == 1 ? " row or table: " : " rows and tables: ") : ": ";
  return "logger " + logger + what + problem;
}

LoggerHub::LoggerHub(std::vector<Entry> loggers, std::chrono::milliseconds patience) : news_(std::make_shared<News>()) {
  for (auto& entry : loggers) channels_.push_back(std::make_unique<Channel>(std::move(entry), news_, patience));
}

LoggerHub::~LoggerHub() = default;

template <class Row>
void LoggerHub::post(const char* hook, Row row, void (Logger::*call)(const Row&)) {
  const auto shared = std::make_shared<const Row>(std::move(row));
  const auto bytes = bytes_of(*shared);
  for (auto& channel : channels_) channel->post({hook, [=](Logger& logger) { (logger.*call)(*shared); }, bytes});
}

void LoggerHub::start(const RunStart& run) {
  std::shared_ptr<const HeldFolder> run_dir;
  if (std::filesystem::is_directory(run.run_dir)) run_dir = std::make_shared<HeldFolder>(run.run_dir);
  for (auto& channel : channels_) channel->hold(run_dir);
  post("start", run, &Logger::start);
}

void LoggerHub::metrics(MetricRow row) {
  log_news(row.epoch, row.step);
  post("metrics", std::move(row), &Logger::metrics);
}

void LoggerHub::progress(const RunProgress& progress) {
  for (auto& channel : channels_) {
    if (channel->idle()) channel->post({"progress", [progress](Logger& logger) { logger.progress(progress); }});
  }
}

void LoggerHub::confusion(const ConfusionTable& table) { post("confusion", table, &Logger::confusion); }

void LoggerHub::predictions(const PredictionTable& table) { post("predictions", table, &Logger::predictions); }

void LoggerHub::histograms(const HistogramTable& table) { post("histograms", table, &Logger::histograms); }

void LoggerHub::event(const RunEvent& event) { post("event", event, &Logger::event); }

std::vector<LoggerTrouble> together(std::vector<LoggerTrouble> earlier, const std::vector<LoggerTrouble>& later) {
  for (const auto& trouble : later) {
    const auto same = std::ranges::find(earlier, trouble.logger, &LoggerTrouble::logger);
    if (same == earlier.end()) {
      earlier.push_back(trouble);
    } else {
      *same = {trouble.logger, same->lost + trouble.lost, trouble.problem};
    }
  }
  return earlier;
}

// Makes events of what has happened to the loggers; those that still write have them.
void LoggerHub::log_news(int64_t epoch, int64_t step) {
  for (const auto& text : news_->take())
    event({.time = wall_seconds(), .epoch = epoch, .step = step, .kind = "logger", .text = text});
}

std::function<void()> LoggerHub::start_flush() {
  std::vector<std::function<void()>> waits;
  for (auto& channel : channels_) waits.push_back(channel->start_flush());
  return [waits] {
    for (const auto& wait : waits) wait();
  };
}

void LoggerHub::flush_all() {
  std::vector<std::function<void()>> waits;
  for (auto& channel : channels_) waits.push_back(channel->start_flush(/*at_end=*/true));
  for (const auto& wait : waits) wait();
}

void LoggerHub::finish(const RunEnd& end) {
  log_news(std::max<int64_t>(1, std::llround(std::ceil(end.epochs))), end.steps);
  post("finish", end, &Logger::finish);
  flush_all();
  for (auto& channel : channels_) channel->close();
}

std::vector<LoggerTrouble> LoggerHub::troubles() const {
  std::vector<LoggerTrouble> troubles;
  for (const auto& channel : channels_) {
    if (auto trouble = channel->trouble()) troubles.push_back(std::move(*trouble));
  }
  return troubles;
}

}  // namespace ddprun
