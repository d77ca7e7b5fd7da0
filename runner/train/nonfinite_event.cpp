// SPDX-License-Identifier: MIT
#include "train/nonfinite_event.h"

#include "base/atomic_file.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cmath>

namespace ddprun {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kMostNamed = 8;  // ranks in a message; the file has all

std::string number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return log::text(value);
}

bool finite_loss(const NonfiniteEvent::Part& part) { return std::isfinite(part.loss); }

NonfiniteEvent::Part own_part(const OpenStep& step) {
  const auto numbers = step.outcome.sums.numbers();  // the loss comes first
  const auto count = numbers[1][0].item<double>();
  NonfiniteEvent::Part part{.loss = count > 0 ? numbers[0][0].item<double>() / count : 0};
  if (count == 0) return part;
  const auto* begin = step.samples.const_data_ptr<int64_t>();
  part.samples.assign(begin, begin + step.samples.numel());
  return part;
}

ordered_json to_json(const NonfiniteEvent::Part& part, size_t rank) {
  ordered_json content{{"rank", rank}, {"loss", nullptr}};
  if (!finite_loss(part)) {
    content["nonfinite"] = number(part.loss);
  } else if (!part.samples.empty()) {
    content["loss"] = part.loss;
  }
  content["samples"] = part.samples;
  return content;
}

}  // namespace

std::string NonfiniteEvent::text() const {
  const bool of_loss = !std::ranges::all_of(ranks, finite_loss);
  auto text = log::text("step ", step, ": ",
                        of_loss ? "the training loss is not finite: " : "the gradients are not finite, the loss is: ");
  std::vector<size_t> order;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank].samples.empty()) order.push_back(rank);
  }
  std::ranges::stable_partition(order, [&](size_t rank) { return !finite_loss(ranks[rank]); });
  for (size_t i = 0; i < std::min(order.size(), kMostNamed); ++i)
    text += log::text(i == 0 ? "" : ", ", number(ranks[order[i]].loss), " on rank ", order[i]);
  return order.size() > kMostNamed ? text + ", ..." : text;
}

NonfiniteEvent gather_event(const OpenStep& step, Communicator& communicator) {
  const auto mine = own_part(step);
  const json text{{"loss", std::bit_cast<uint64_t>(mine.loss)}, {"samples", mine.samples}};
  NonfiniteEvent event{.step = step.step, .epoch = step.epoch};
  for (const auto& part : communicator.gather_texts(text.dump())) {
    const auto from = json::parse(part);
    event.ranks.push_back(
        {std::bit_cast<double>(from.at("loss").get<uint64_t>()), from.at("samples").get<std::vector<int64_t>>()});
  }
  return event;
}

std::filesystem::path event_file(const std::filesystem::path& run_dir, int64_t step) {
  return run_dir / "nonfinite" / (checkpoint_name(step) + ".json");
}

void write_event(const NonfiniteEvent& event, OnNonfinite action, const std::filesystem::path& file) {
  if (std::filesystem::exists(file)) return;
  auto ranks = ordered_json::array();
  for (size_t rank = 0; rank < event.ranks.size(); ++rank) ranks.push_back(to_json(event.ranks[rank], rank));
  const ordered_json content{{"step", event.step},
                             {"epoch", event.epoch},
                             {"cause", std::ranges::all_of(event.ranks, finite_loss) ? "gradients" : "loss"},
                             {"on_nonfinite", word_of(action)},
                             {"ranks", std::move(ranks)}};
  std::filesystem::create_directories(file.parent_path());
  write_file_atomically(file, content.dump(2) + "\n");
}

}  // namespace ddprun
