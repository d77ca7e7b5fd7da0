// SPDX-License-Identifier: MIT
#include "train/nonfinite_policy.h"

#include "base/files_below.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "comm/replicate.h"
#include "step/gradients.h"
#include "strict_json.h"

#include <ddprun/error.h>
#include <ddprun/files.h>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <bit>
#include <cmath>

namespace ddprun {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr auto kEvents = "nonfinite";  // the folder of the events' files
constexpr size_t kMostNamed = 8;       // ranks named in a message; the file has all

std::string number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return log::text(value);
}

bool finite_loss(const NonfiniteEvent::Part& part) { return std::isfinite(part.loss); }

NonfiniteEvent::Part own_part(const OpenStep& step) {
  const auto numbers = step.outcome.sums().numbers();  // the loss comes first
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
  return run_dir / kEvents / (checkpoint_name(step) + ".json");
}

void write_event(const NonfiniteEvent& event, OnNonfinite action, int64_t to, const std::filesystem::path& file) {
  if (action != OnNonfinite::kRollback && std::filesystem::exists(file)) return;
  auto ranks = ordered_json::array();
  for (size_t rank = 0; rank < event.ranks.size(); ++rank) ranks.push_back(to_json(event.ranks[rank], rank));
  ordered_json content{{"step", event.step},
                       {"epoch", event.epoch},
                       {"cause", std::ranges::all_of(event.ranks, finite_loss) ? "gradients" : "loss"},
                       {"on_nonfinite", word_of(action)}};
  if (action == OnNonfinite::kRollback) content["rolled_back_to"] = to;
  content["ranks"] = std::move(ranks);
  std::filesystem::create_directories(file.parent_path());
  replace_file(file, content.dump(2) + "\n");
}

std::vector<Rollback> read_rollbacks(const std::filesystem::path& run_dir) {
  std::vector<Rollback> rollbacks;
  const auto folder = run_dir / kEvents;
  if (!std::filesystem::exists(folder)) return rollbacks;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const auto name = entry.path().filename();
    if (name.extension() != ".json" || !step_of_name(name.stem().string())) continue;
    try {
      const auto content = parse_strict_json(read_below(run_dir, kEvents / name));
      if (!content.contains("rolled_back_to")) continue;
      rollbacks.push_back({static_cast<int64_t>(to_count(content.at("step"))),
                           static_cast<int64_t>(to_count(content.at("rolled_back_to")))});
    } catch (const UserError&) {
      throw;
    } catch (const std::exception&) {
      throw UserError(
          entry.path().string() +
          ": it says which step was rolled back, and is damaged; remove it to meet that step's batch again");
    }
  }
  return rollbacks;
}

namespace {

std::string advice_for(const TrainerConfig& config) {
  std::string advice = ". Lower the learning rate";
  if (config.clip_norm == 0) advice += ", clip the gradients (trainer.clip_norm=1)";
  if (config.precision == PrecisionMode::kFp16) advice += ", use trainer.precision=bf16, which has float32's range";
  return advice;
}

}  // namespace

void NonfinitePolicy::start() {
  if (context_.experiment.trainer.on_nonfinite != OnNonfinite::kRollback) return;
  json text = {{"problem", ""}, {"rollbacks", json::array()}};
  try {
    if (context_.is_rank_zero()) {
      for (const auto& [step, to] : read_rollbacks(context_.run_dir)) text["rollbacks"].push_back({step, to});
    }
  } catch (const std::exception& error) {
    text["problem"] = error.what();
  }
  const auto read = json::parse(context_.communicator.broadcast_text(text.dump()));
  if (const auto problem = read.at("problem").get<std::string>(); !problem.empty()) throw UserError(problem);
  for (const auto& one : read.at("rollbacks")) rollbacks_.push_back({one.at(0), one.at(1)});
}

bool NonfinitePolicy::skips(int64_t step) const {
  return std::ranges::find(rollbacks_, step, &Rollback::step) != rollbacks_.end();
}

// Hands in the flags. On a GPU, which still works on the last step, several ranks, who hand in the same steps, wait for
// those before it; a single one waits for none but those of long ago.
void NonfinitePolicy::hand_in(Flags& mine) {
  constexpr size_t kMostOpen = 32;
  auto done = open_.size();
  const bool alone = !context_.communicator.is_distributed();
  if (context_.device.is_cuda() && done > 0) --done;
  for (size_t i = 0; i < done; ++i) {
    if (open_[i].step <= handed_in_) continue;
    if (alone && done - i < kMostOpen && !open_[i].outcome.is_there()) break;
    mine.nonfinite = open_[i].outcome.nonfinite() || mine.nonfinite;
    mine.checked_step = handed_in_ = open_[i].step;
  }
}

// Takes the steps of an exchange as known; the ranks then agree which of several was nonfinite.
void NonfinitePolicy::learn(const Flags& agreed) {
  const auto is_agreed = [&agreed](const OpenStep& step) { return step.step <= agreed.checked_step; };
  const auto count = static_cast<size_t>(std::ranges::count_if(open_, is_agreed));
  if (agreed.nonfinite && count > 1) return settle(count);
  nonfinite_.assign(count, agreed.nonfinite);
}

// Settles the first `count` open steps.
void NonfinitePolicy::settle(size_t count) {
  if (count == 0) return;
  auto raised = at::zeros({static_cast<int64_t>(count)}, at::kInt);
  auto* flags = raised.data_ptr<int>();
  for (size_t i = 0; i < count; ++i) flags[i] = open_[i].outcome.nonfinite() ? 1 : 0;
  context_.communicator.sum(raised);
  const auto* sums = raised.const_data_ptr<int>();
  for (size_t i = 0; i < count; ++i) nonfinite_.push_back(sums[i] > 0);
}

std::optional<NonfinitePolicy::Verdict> NonfinitePolicy::next(int64_t last_checkpoint) {
  if (nonfinite_.empty()) return std::nullopt;
  const bool nonfinite = nonfinite_.front();
  nonfinite_.pop_front();
  auto step = std::move(open_.front());
  open_.pop_front();
  return nonfinite ? judge(std::move(step), last_checkpoint) : Verdict{.step = std::move(step)};
}

NonfinitePolicy::Verdict NonfinitePolicy::judge(OpenStep step, int64_t last_checkpoint) const {
  auto event = gather_event(step, context_.communicator);
  Verdict verdict{.step = std::move(step), .found = event.text()};
  switch (context_.experiment.trainer.on_nonfinite) {
    case OnNonfinite::kStop:
      verdict.error = verdict.found + advice(event.step) +
                      ". trainer.on_nonfinite=skip skips such steps; rollback returns to the last checkpoint and "
                      "skips the batch. Existing checkpoints are unaffected.";
      break;
    case OnNonfinite::kSkip:
      verdict.action = Action::kSkip;
      if (state_.skips_in_row < TrainerConfig::kMostSkips) break;
      verdict.error =
          log::text(verdict.found, ". That is more than ", TrainerConfig::kMostSkips,
                    " steps in a row, too many to skip", advice(event.step), ". Existing checkpoints are unaffected.");
      break;
    case OnNonfinite::kRollback:
      verdict.action = Action::kRollBack;
      if (std::ranges::count(rollbacks_, last_checkpoint, &Rollback::to) < TrainerConfig::kMostRollbacks) break;
      verdict.error = log::text(verdict.found, "; training has already rolled back to step ", last_checkpoint, " ",
                                TrainerConfig::kMostRollbacks, " times", advice(event.step), ".");
      break;
  }
  if (!verdict.error.empty()) verdict.action = Action::kStop;
  verdict.event = std::move(event);
  return verdict;
}

std::string NonfinitePolicy::advice(int64_t step) const {
  return advice_for(context_.experiment.trainer) + " or check the data: " +
         log::text("`ddprun replay ", context_.run_dir.string(), " --step ", step,
                   "` shows the batch's samples with their losses; their indices are in ") +
         event_file(context_.run_dir, step).string();
}

std::optional<std::string> NonfinitePolicy::problem_of_weights() const {
  std::vector<at::Tensor> weights;
  for (const auto& parameter : trainable_parameters(*context_.model)) weights.push_back(parameter.value.detach());
  if (std::isfinite(total_norm(norms_of(weights)).item<double>())) return std::nullopt;
  return log::text("the weights are not finite after step ", state_.step, advice_for(context_.experiment.trainer),
                   ". Existing checkpoints are unaffected.");
}

}  // namespace ddprun
