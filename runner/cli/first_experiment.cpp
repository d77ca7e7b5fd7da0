// SPDX-License-Identifier: MIT
#include "cli/first_experiment.h"

#include "base/log.h"
#include "config/compose.h"
#include "config/interpolation.h"
#include "submit/submission.h"

#include <ddprun/error.h>

#include <algorithm>
#include <bit>

namespace ddprun {
namespace {

constexpr int64_t kSmallImage = 64;    // up to this side a network of two convolutions learns quickly on a CPU
constexpr int64_t kSmallestImage = 6;  // that it takes
constexpr int64_t kEpochs = 10, kBatch = 64;
constexpr double kUneven = 3;  // times as many samples

// The sections after the dataset.
struct Recipe {
  std::string model, optimizer, schedule, objective, monitor;
  std::string trainer = "";  // keys besides max_epochs and global_batch
  int64_t batch = kBatch;
};

int64_t training_samples(const DataSurvey& survey) { return survey.splits.front().samples; }

bool has_val(const DataSurvey& survey) {
  return std::ranges::find(survey.splits, Split::kVal, &SplitSurvey::split) != survey.splits.end();
}

// Ten steps an epoch at least, if there are so few samples.
int64_t batch_for(int64_t samples, int64_t most) {
  const auto tenth = static_cast<uint64_t>(std::max<int64_t>(samples / 10, 4));
  return std::min({most, samples, static_cast<int64_t>(std::bit_floor(tenth))});
}

bool are_images(const DataSpec& spec) {
  const auto& shape = spec.sample_shape;
  return shape.size() == 3 && std::min(shape[1], shape[2]) >= kSmallestImage;
}

Recipe for_images(const DataSpec& spec) {
  Recipe recipe{.optimizer = "{plugin: adamw, lr: 0.001}", .schedule = "{name: cosine}", .monitor = "val/accuracy"};
  const bool small = std::max(spec.sample_shape[1], spec.sample_shape[2]) <= kSmallImage;
  recipe.model = small ? "{plugin: convnet_bn}  # small and quick; {plugin: resnet, depth: 18} learns more, on a GPU"
                       : "{plugin: resnet, depth: 18}  # for a GPU; a CPU wants patience, or a smaller dataset.size";
  return recipe;
}

Recipe for_text(int64_t samples) {
  constexpr int64_t kTextBatch = 16, kLong = 1600;  // samples that give a thousand steps
  return {.model = "{plugin: transformer, width: 64, layers: 2, heads: 4}",
          .optimizer = "{plugin: adamw, lr: 0.004}",
          .schedule = samples >= kLong ? "{name: cosine, warmup: 100st}" : "{name: cosine}",
          .monitor = "val/perplexity",
          .trainer = ", clip_norm: 1",
          .batch = kTextBatch};
}

Recipe for_values(const std::vector<int64_t>& target_shape) {
  if (target_shape.size() > 1)
    throw UserError("targets of " + shape_text(target_shape) +
                    " values: no model that comes with ddprun predicts them; docs/plugins.md tells how to write one");
  const auto outputs = target_shape.empty() ? 1 : target_shape.front();
  return {.model = log::text("{plugin: mlp, hidden: 128, layers: 2, outputs: ", outputs, "}"),
          .optimizer = "{plugin: adam, lr: 0.001}",
          .schedule = "{name: cosine}",
          .objective = "{name: mse, metrics: [mae]}",
          .monitor = "val/loss"};
}

Recipe recipe_for(const DataSurvey& survey) {
  const auto& spec = survey.spec;
  const auto& target = survey.splits.front().target_shape;
  if (spec.classes == 0) return for_values(target);
  if (survey.splits.front().is_text()) return for_text(training_samples(survey));
  if (survey.splits.front().input_type == "int64" || target.size() == 1)
    throw UserError(
        "samples are sequences of numbers with classes: no recipe fits them; begin with experiments/text.yaml, or with "
        "a model written in Python (docs/models.md)");
  if (target.size() == 2) {
    auto recipe = for_images(spec);
    recipe.model = "{plugin: unet, width: 32, depth: 3}  # the class of each pixel";
    return recipe;
  }
  if (are_images(spec)) return for_images(spec);
  return {.model = "{plugin: mlp, hidden: 128, layers: 2}",
          .optimizer = "{plugin: adam, lr: 0.001}",
          .schedule = "{name: cosine}",
          .monitor = "val/accuracy"};
}

std::string dataset_lines(const FirstExperiment& first) {
  std::string text = "dataset:\n";
  for (const auto& entry : first.dataset.entries()) {
    auto one = Value::map();
    one.set(entry.key, entry.value);
    auto lines = to_yaml(one, /*origins=*/false);
    lines.pop_back();
    for (size_t at = 0; (at = lines.find('\n', at)) != lines.npos; at += 3) lines.replace(at, 1, "\n  ");
    const auto remark = first.remarks.find(entry.key);
    text += "  " + lines + (remark == first.remarks.end() ? "" : "  # " + remark->second) + "\n";
  }
  return text;
}

// Returns what classes of unequal size may need, as a comment to take or leave.
std::string balance_lines(const DataSurvey& survey) {
  if (imbalance(survey) < kUneven || !survey.splits.front().target_shape.empty()) return "";
  return "# The classes are uneven. This draws each equally often; add it to the trainer above:\n"
         "# trainer: {sampling: {balance: class}}\n";
}

std::string head_lines(const FirstExperiment& first) {
  const auto command = [&](const std::string& words, const std::string& what) {
    const auto line = "#   ddprun " + words;
    return line + std::string(line.size() < 48 ? 48 - line.size() : 2, ' ') + "# " + what + "\n";
  };
  return "# A first experiment for " + first.place + ", by `ddprun init`: a beginning, to be changed.\n#\n" +
         command("data " + shell_word(first.file), "look at the samples before you train") +
         command("check " + shell_word(first.file), "find mistakes") + command(shell_word(first.file), "train");
}

}  // namespace

double imbalance(const DataSurvey& survey) {
  if (survey.splits.front().is_text()) return 1;
  int64_t least = 0, most = 0;
  for (const auto count : survey.splits.front().per_class) {
    if (count > 0) least = least == 0 ? count : std::min(least, count);
    most = std::max(most, count);
  }
  return least == 0 ? 1 : static_cast<double>(most) / static_cast<double>(least);
}

std::string first_experiment_text(const FirstExperiment& first) {
  const auto& survey = first.survey;
  const auto recipe = recipe_for(survey);
  auto name = Value::map();
  name.set("name", Value::scalar(escape_references(first.name)));
  auto text = head_lines(first) + to_yaml(name, /*origins=*/false) + "seed: 42\n\n" + dataset_lines(first) +
              "\nmodel: " + recipe.model + "\noptimizer: " + recipe.optimizer + "\nschedule: " + recipe.schedule + "\n";
  if (!recipe.objective.empty()) text += "objective: " + recipe.objective + "\n";
  text += log::text("trainer: {max_epochs: ", kEpochs,
                    ", global_batch: ", batch_for(training_samples(survey), recipe.batch), recipe.trainer, "}\n");
  if (has_val(survey)) text += "early_stopping: {monitor: " + recipe.monitor + ", patience: 3}\n";
  if (has_val(survey) && recipe.monitor != "val/accuracy") text += "checkpoint: {monitor: " + recipe.monitor + "}\n";
  return text + balance_lines(survey);
}

}  // namespace ddprun
