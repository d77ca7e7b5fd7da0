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

std::vector<double> column(const RankTable& table, size_t index) {
  std::vector<double> values;
  for (const auto& row : table.rows) values.push_back(row[index]);
  return values;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

}  // namespace

SystemMetrics::SystemMetrics(DeviceBackend* backend) : backend_(backend), cpu_(cpu_seconds()) {}

RankTable SystemMetrics::gather(const PhaseSeconds& seconds, int64_t steps, Communicator& communicator) {
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
  RankTable table{.time = wall_seconds(), .columns = kColumns};
  for (int64_t rank = 0; rank < all.size(0); ++rank) {
    const auto* row = all.const_data_ptr<double>() + rank * columns;
    table.rows.emplace_back(row, row + columns);
  }
  return table;
}

NamedValues system_values(const RankTable& table) {
  NamedValues values;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    const auto all = column(table, i);
    if (std::ranges::any_of(all, [](double value) { return std::isnan(value); })) continue;
    const bool memory = table.columns[i].ends_with("_bytes");
    values.emplace_back(table.columns[i], memory ? *std::ranges::max_element(all) : mean(all));
  }
  constexpr auto kWait = kFirstPhase + static_cast<size_t>(StepPhase::kWait);
  constexpr auto kOther = kFirstPhase + static_cast<size_t>(StepPhase::kOther);
  std::vector<double> own;
  for (const auto& row : table.rows) own.push_back(row[0] - row[kWait] - row[kOther]);
  const auto slowest = std::ranges::max_element(own);
  values.emplace_back("slowest_rank", static_cast<double>(slowest - own.begin()));
  values.emplace_back("slowest_rank_seconds", *slowest);
  return values;
}

}  // namespace ddprun
