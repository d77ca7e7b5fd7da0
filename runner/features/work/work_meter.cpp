// SPDX-License-Identifier: MIT
#include "features/work/work_meter.h"

#include "features/work/work_section.h"
#include "step/train_step.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <string_view>

namespace ddprun {
namespace {

constexpr double kTera = 1e12;

// Dense TFLOP/s. 0: it has no units for that.
struct Peak {
  std::string_view name;  // without "NVIDIA " or "Tesla "
  bool is_prefix;
  double bf16, fp16, tf32, fp32;
};

constexpr auto kPeaks = std::to_array<Peak>({
    {"H200", false, 989.4, 989.4, 494.7, 66.9},
    {"H100 80GB HBM3", false, 989.4, 989.4, 494.7, 66.9},
    {"H100 PCIe", false, 756, 756, 378, 51.2},
    {"H100 NVL", false, 835, 835, 417, 60},
    {"A100-", true, 312, 312, 156, 19.5},
    {"A100 80GB PCIe", false, 312, 312, 156, 19.5},
    {"L40S", false, 362, 362, 183, 91.6},
    {"L4", false, 121, 121, 60, 30.3},
    {"V100-SXM2", true, 0, 125, 0, 15.7},
    {"T4", false, 0, 65, 0, 8.1},
});

const Peak* peak_of(std::string_view name) {
  for (const std::string_view maker : {"NVIDIA ", "Tesla "}) {
    if (name.starts_with(maker)) name.remove_prefix(maker.size());
  }
  if (name.find("MIG") != name.npos) return nullptr;  // a part of one
  const auto fits = [&](const Peak& peak) { return peak.is_prefix ? name.starts_with(peak.name) : name == peak.name; };
  const auto* found = std::ranges::find_if(kPeaks, fits);
  return found == kPeaks.end() ? nullptr : found;
}

// The first part of "NVIDIA H200, 139 GiB".
std::string name_of(const DeviceBackend& backend) {
  const auto text = backend.description();
  return text.substr(0, text.rfind(", "));
}

using nlohmann::json;

// As bits: exact, and NaN survives.
std::string text_of(const TrainWork& work) {
  return json{work.tokens_per_sample, std::bit_cast<uint64_t>(work.flops), std::bit_cast<uint64_t>(work.possible)}
      .dump();
}

TrainWork work_in(const std::string& text) {
  const auto from = json::parse(text);
  return {.tokens_per_sample = from.at(0),
          .flops = std::bit_cast<double>(from.at(1).get<uint64_t>()),
          .possible = std::bit_cast<double>(from.at(2).get<uint64_t>())};
}

}  // namespace

double peak_flops(const std::string& device, PrecisionMode precision, bool has_convolutions) {
  const auto* peak = peak_of(device);
  if (!peak) return 0;
  const auto tf32 = (peak->tf32 > 0 ? peak->tf32 : peak->fp32) * kTera, fp32 = peak->fp32 * kTera;
  switch (precision) {
    case PrecisionMode::kBf16:
    case PrecisionMode::kBf16Pure:
    case PrecisionMode::kBf16Master: return peak->bf16 * kTera;
    case PrecisionMode::kFp16: return peak->fp16 * kTera;
    case PrecisionMode::kTf32: return tf32;
    case PrecisionMode::kFp32: return has_convolutions ? tf32 : fp32;
    case PrecisionMode::kFp32Exact: break;
  }
  return fp32;
}

int64_t tokens_of_sample(const Batch& batch) {
  const auto &input = batch.input, &target = batch.target;
  if (!input.defined() || !target.defined()) return 0;
  const bool is_sequence = target.dim() == 2 && target.scalar_type() == at::kLong && input.dim() >= 2;
  if (!is_sequence) return 0;
  const bool has_symbols = input.dim() == 2 && input.scalar_type() == at::kLong;
  return has_symbols || input.size(1) == target.size(1) ? target.size(1) : 0;
}

void WorkMeter::before_step(Loop& /*loop*/, const TrainBatch& batch) {
  const auto& some = batch.shards.empty() ? batch.batch : batch.shards.front().batch;
  work_.tokens_per_sample = batch.images ? 0 : tokens_of_sample(some);
  if (!is_known_ && context_.is_rank_zero()) count_.emplace();
}

OperatorListener* WorkMeter::listener(int64_t samples) {
  count_->begin_forward(samples);
  return &*count_;
}

void WorkMeter::computed(Loop& /*loop*/, const TrainBatch& batch, const StepOutcome* outcome) {
  if (!outcome) return;
  if (count_ && count_->samples() > 0) {
    flops_per_sample_ = count_->flops() / static_cast<double>(count_->samples());
    has_convolutions_ = count_->has_convolutions();
    is_known_ = true;
  }
  count_.reset();
  work_.flops += flops_per_sample_ * static_cast<double>(batch.global_samples);
}

// Returns the floating-point operations that all devices together could have done in this time; NaN if that is not
// known.
double WorkMeter::possible(double seconds) const {
  const auto& experiment = context_.experiment;
  auto peak = experiment.features.of<WorkConfig>().peak_tflops * kTera;
  if (peak == 0 && context_.backend)
    peak = peak_flops(name_of(*context_.backend), experiment.trainer.precision, has_convolutions_);
  if (peak == 0) return std::numeric_limits<double>::quiet_NaN();
  return peak * seconds * static_cast<double>(context_.communicator.world().size * context_.devices());
}

void WorkMeter::count_time(double train_seconds) {
  work_.possible += possible(train_seconds - std::exchange(counted_until_, train_seconds));
}

void WorkMeter::add_to_row(const RowSpan& span, NamedValues& values) {
  double flops = 0, most = 0;
  if (span.is_part) {
    count_time(span.until);
    const auto before = std::exchange(at_part_, work_);
    flops = work_.flops - before.flops;
    most = work_.possible - before.possible;
  } else {
    flops = work_.flops - std::exchange(flops_at_row_, work_.flops);
    most = possible(span.seconds);
  }
  if (work_.tokens_per_sample > 0)
    values.emplace_back("tokens_per_second", span.samples_per_second * static_cast<double>(work_.tokens_per_sample));
  if (flops == 0) return;
  values.emplace_back("model_flops_per_second", flops / std::max(span.seconds, 1e-9));
  if (most > 0) values.emplace_back("mfu", flops / most);
}

void WorkMeter::at_end(const Loop& loop, RunEnd& end) {
  count_time(loop.state.train_seconds);
  end.tokens_per_second = end.samples_per_second * static_cast<double>(work_.tokens_per_sample);
  end.model_flops_per_second = work_.flops / std::max(loop.state.train_seconds, 1e-9);
  end.mfu = work_.possible > 0 ? work_.flops / work_.possible : 0;
}

void WorkMeter::save(const Loop& loop, FeatureStates& states) {
  count_time(loop.state.train_seconds);
  states["work"] = text_of(work_);
  states["part_work"] = text_of(at_part_);
}

void WorkMeter::restore(Loop& loop, const FeatureStates& states) {
  counted_until_ = loop.state.train_seconds;
  work_ = work_in(states.at("work"));
  at_part_ = work_in(states.at("part_work"));
  flops_at_row_ = work_.flops;
}

std::unique_ptr<Feature> make_work(const Context& context, const TrainPlan& /*plan*/) {
  return std::make_unique<WorkMeter>(context);
}

}  // namespace ddprun
