// SPDX-License-Identifier: MIT
#include "config/resumed_keys.h"

#include "config/compose.h"
#include "config/key_path.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

namespace ddprun {
namespace {

using Text = std::optional<std::string>;

std::string mode(bool maximize) { return maximize ? "max" : "min"; }

std::string joined(const std::vector<std::string>& texts) {
  std::string text;
  for (const auto& one : texts) text += (text.empty() ? "" : ", ") + one;
  return "[" + text + "]";
}

Text name(const Experiment& experiment) { return experiment.name; }
Text seed(const Experiment& experiment) { return std::to_string(experiment.seed); }
Text shards(const Experiment& experiment) { return std::to_string(experiment.trainer.shards); }
Text loss_scale(const Experiment& experiment) { return std::to_string(experiment.trainer.loss_scale); }
Text sanity_batches(const Experiment& experiment) { return std::to_string(experiment.trainer.sanity_batches); }
// With checkpoint.only_trainable, a resumed run begins with these weights again: the file may lie elsewhere now, and
// the checkpoint's digest says whether it is the same.
bool are_first_weights_fixed(const Experiment& experiment) { return !experiment.checkpoint.only_trainable; }

Text pretrained_file(const Experiment& experiment) {
  return are_first_weights_fixed(experiment) ? Text(experiment.pretrained.file) : std::nullopt;
}

Text pretrained_skip(const Experiment& experiment) {
  return are_first_weights_fixed(experiment) ? Text(joined(experiment.pretrained.skip.patterns)) : std::nullopt;
}

Text pretrained_rename(const Experiment& experiment) {
  if (!are_first_weights_fixed(experiment)) return std::nullopt;
  std::vector<std::string> texts;
  for (const auto& [pattern, replacement] : experiment.pretrained.rename) texts.push_back(pattern + ": " + replacement);
  return joined(texts);
}

Text best_monitor(const Experiment& experiment) { return experiment.checkpoint.monitor; }
Text best_mode(const Experiment& experiment) { return mode(experiment.checkpoint.maximize); }

Text stopping_monitor(const Experiment& experiment) {
  return experiment.early_stopping ? Text(experiment.early_stopping->monitor) : std::nullopt;
}

Text stopping_mode(const Experiment& experiment) {
  return experiment.early_stopping ? Text(mode(experiment.early_stopping->maximize)) : std::nullopt;
}

bool is_plateau(const Experiment& experiment) { return experiment.schedule.kind == ScheduleKind::kPlateau; }

Text plateau_monitor(const Experiment& experiment) {
  return is_plateau(experiment) ? Text(experiment.schedule.monitor) : std::nullopt;
}

Text plateau_mode(const Experiment& experiment) {
  return is_plateau(experiment) ? Text(mode(experiment.schedule.maximize)) : std::nullopt;
}

Text resumed_from(const Experiment& experiment) {
  const auto& checkpoint = experiment.checkpoint;
  if (checkpoint.resume == Resume::kFrom) return checkpoint.resume_from;
  return checkpoint.resume == Resume::kAuto ? "auto" : "never";
}

Text run_dir(const Experiment& experiment) { return experiment.run_dir.string(); }

Text resources(const Experiment& experiment) {
  const auto* section = experiment.config.find("resources");
  return section ? to_yaml(*section, /*origins=*/false) : "";
}

constexpr auto kFirstWeights = "the weights come from the run's checkpoint; a new run can begin from others";
constexpr auto kFollowed =
    "the best value so far is of the metric followed until now; a new run with pretrained.file=RUN can follow another";

using enum FixedKey::By;
constexpr auto kFixed = std::to_array<FixedKey>({
    {"name", kFolder, name, "the folder and what was logged keep the name; a new run can have another"},
    {"run.dir", kFolder, run_dir,
     "the run stays in its folder; move the folder, or start a new run with checkpoint.resume=RUN"},
    {"checkpoint.resume", kFolder, resumed_from,
     "the run continues from its own newest checkpoint; a new run (ddprun EXPERIMENT) can start from another"},
    {"resources", kSubmit, resources, "only `ddprun submit EXPERIMENT` reads them; set launch.workers, launch.nodes"},
    {"seed", kCheckpoint, seed, "the samples' order and all draws continue from it; a new run can have another"},
    {"trainer.shards", kCheckpoint, shards, "the bits of its steps follow from it; a new run can have others"},
    {"trainer.loss_scale", kCheckpoint, loss_scale, "only a run's first step has it; the checkpoint has the scale now"},
    {"trainer.sanity_batches", kCheckpoint, sanity_batches, "they come before a run's first step, which is done"},
    {"pretrained.file", kCheckpoint, pretrained_file, kFirstWeights},
    {"pretrained.rename", kCheckpoint, pretrained_rename, kFirstWeights},
    {"pretrained.skip", kCheckpoint, pretrained_skip, kFirstWeights},
    {"checkpoint.monitor", kCheckpoint, best_monitor, kFollowed},
    {"checkpoint.mode", kCheckpoint, best_mode, kFollowed},
    {"early_stopping.monitor", kCheckpoint, stopping_monitor, kFollowed},
    {"early_stopping.mode", kCheckpoint, stopping_mode, kFollowed},
    {"schedule.monitor", kCheckpoint, plateau_monitor, kFollowed},
    {"schedule.mode", kCheckpoint, plateau_mode, kFollowed},
});

}  // namespace

std::span<const FixedKey> fixed_keys() { return kFixed; }

std::vector<std::string> ignored_changes(const Experiment& recorded, const Experiment& now,
                                         const std::set<FixedKey::By>& by) {
  std::vector<std::string> lines;
  for (const auto& key : kFixed) {
    const auto before = key.value(recorded), after = key.value(now);
    const bool differs = before && after && *before != *after;
    if (!differs || !by.contains(key.by)) continue;
    const auto path = *parse_key_path(key.key);
    if (path.back() == "mode" && !find_at(now.config, path)) continue;  // by default it follows from the monitor
    const auto place = place_at(now.config, path);
    lines.push_back(problem_line(place, key.key, std::string("a resumed run cannot change it: ") + key.instead));
  }
  return lines;
}

std::vector<std::string> changes_of_training(const Value& recorded, const Value& now) {
  constexpr std::array kSections{"model", "optimizer", "schedule", "pretrained", "callbacks", "trainer"};
  constexpr std::array<std::string_view, 13> kOfEvaluations{
      "trainer.max_epochs",         "trainer.max_steps",     "trainer.max_time",         "trainer.limit_val_batches",
      "trainer.limit_test_batches", "trainer.eval_batch",    "trainer.prefetch_threads", "trainer.prefetch_batches",
      "trainer.precision",          "trainer.deterministic", "trainer.memory_format",    "trainer.shard_optimizer",
      "trainer.recompute"};
  const auto values = [&](const Value& config) {
    std::map<std::string, std::string> texts;  // by key, which may have dots of its own
    for (const auto* name : kSections) {
      const auto* section = config.find(name);
      if (section && section->is_list()) texts[name] = to_yaml(*section, /*origins=*/false);
      if (!section || !section->is_map()) continue;
      for (const auto& entry : section->entries())
        texts[std::string(name) + "." + entry.key] = to_yaml(entry.value, /*origins=*/false);
    }
    return texts;
  };
  const auto* leaves_out = find_at(now, *parse_key_path("checkpoint.only_trainable"));
  const bool file_may_move = leaves_out && leaves_out->text() == "true";  // see are_first_weights_fixed()
  const auto before = values(recorded), after = values(now);
  auto all = after;
  all.insert(before.begin(), before.end());
  std::vector<std::string> changed;
  for (const auto& [key, value] : all) {
    const bool differs = !before.contains(key) || !after.contains(key) || before.at(key) != after.at(key);
    const bool matters =
        std::ranges::find(kOfEvaluations, key) == kOfEvaluations.end() && !(file_may_move && key == "pretrained.file");
    if (differs && matters) changed.push_back(key);
  }
  return changed;
}

}  // namespace ddprun
