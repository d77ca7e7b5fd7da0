// SPDX-License-Identifier: MIT
#include "metrics/system_metrics.h"

#include "base/clock.h"

#include <ATen/ATen.h>

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>

namespace ddprun {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

const std::vector<std::string> kColumns{"step_seconds",  "data_seconds",      "forward_seconds", "backward_seconds",
                                        "wait_seconds",  "optimizer_seconds", "graph_seconds",   "logging_seconds",
                                        "other_seconds", "rss_bytes",         "cpu_percent",     "gpu_memory_bytes",
                                        "gpu_percent"};
constexpr size_t kFirstPhase = 1;

bool is_memory(size_t column) { return kColumns[column].ends_with("_bytes"); }

double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

double rss_bytes() {
  std::ifstream file("/proc/self/statm");
  double size = 0, resident = 0;
  if (!(file >> size >> resident)) return kUnknown;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

// Returns one column, a value of each rank, of [ranks, columns].
std::vector<double> column(const at::Tensor& all, size_t index) {
  const auto numbers = all.accessor<double, 2>();
  std::vector<double> values;
  for (int64_t rank = 0; rank < all.size(0); ++rank) values.push_back(numbers[rank][static_cast<int64_t>(index)]);
  return values;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

NamedValues row_of(const at::Tensor& all) {
  NamedValues values;
  for (size_t i = 0; i < kColumns.size(); ++i) {
    const auto of_ranks = column(all, i);
    if (std::ranges::any_of(of_ranks, [](double value) { return std::isnan(value); })) continue;
    values.emplace_back(kColumns[i], is_memory(i) ? *std::ranges::max_element(of_ranks) : mean(of_ranks));
  }
  auto own = column(all, 0);
  const auto wait = column(all, kFirstPhase + static_cast<size_t>(StepPhase::kWait));
  const auto other = column(all, kFirstPhase + static_cast<size_t>(StepPhase::kOther));
  for (size_t rank = 0; rank < own.size(); ++rank) own[rank] = own[rank] - wait[rank] - other[rank];
  const auto slowest = std::ranges::max_element(own);
  values.emplace_back("slowest_rank", static_cast<double>(slowest - own.begin()));
  values.emplace_back("slowest_rank_seconds", *slowest);
  return values;
}

}  // namespace

SystemMetrics::SystemMetrics(DeviceBackend* backend) : backend_(backend), cpu_(cpu_seconds()) {}

NamedValues SystemMetrics::row(const PhaseSeconds& seconds, int64_t steps, Communicator& communicator) {
  const auto columns = static_cast<int64_t>(kColumns.size());
  auto all = at::zeros({communicator.world().size, columns}, at::kDouble);
  auto* mine = all.mutable_data_ptr<double>() + communicator.world().rank * columns;
  const double share = 1 / static_cast<double>(std::max<int64_t>(steps, 1));
  *mine++ = seconds.total() * share;
  for (const double phase : seconds.of) *mine++ = phase * share;
  const double cpu = cpu_seconds();
  *mine++ = rss_bytes();
  *mine++ = 100 * (cpu - cpu_) / std::max(since_.seconds(), 1e-9);
  const auto usage = backend_ ? backend_->usage() : DeviceUsage{};
  *mine++ = backend_ ? static_cast<double>(usage.memory_bytes) : kUnknown;
  *mine++ = usage.percent >= 0 ? usage.percent : kUnknown;
  since_.restart();
  cpu_ = cpu;
  communicator.sum(all);
  add(all, steps);
  return row_of(all);
}

void SystemMetrics::add(const at::Tensor& all, int64_t steps) {
  if (!totals_.defined()) totals_ = at::zeros_like(all);
  for (size_t i = 0; i < kColumns.size(); ++i) {
    const auto index = static_cast<int64_t>(i);
    auto total = totals_.select(1, index);
    is_memory(i) ? total.copy_(at::maximum(total, all.select(1, index))) : total.add_(all.select(1, index), steps);
  }
  steps_ += steps;
}

std::vector<NamedValues> SystemMetrics::of_ranks() const {
  std::vector<NamedValues> ranks(totals_.defined() ? static_cast<size_t>(totals_.size(0)) : 0);
  for (size_t i = 0; i < kColumns.size() && !ranks.empty(); ++i) {
    const auto values = column(totals_, i);
    const auto steps = is_memory(i) ? 1 : static_cast<double>(steps_);
    for (size_t rank = 0; rank < ranks.size(); ++rank)
      if (!std::isnan(values[rank])) ranks[rank].emplace_back(kColumns[i], values[rank] / steps);
  }
  return ranks;
}

}  // namespace ddprun
