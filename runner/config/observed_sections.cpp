// SPDX-License-Identifier: MIT
// Reads the sections for what is shown of a run besides its rows of metrics.
#include "config/interval.h"
#include "config/sections.h"

#include <regex>

namespace ddprun {
namespace {

// Parses "10..20", both ends included.
std::optional<StepRange> parse_steps(const std::string& text) {
  static const std::regex form(R"((\d{1,12})\.\.(\d{1,12}))");
  std::smatch parts;
  if (!std::regex_match(text, parts, form)) return std::nullopt;
  const StepRange steps{.first = std::stoll(parts[1]), .last = std::stoll(parts[2])};
  return steps.first >= 1 && steps.first <= steps.last ? std::optional(steps) : std::nullopt;
}

}  // namespace

PredictionsConfig read_predictions(Options& options) {
  constexpr int64_t kMostBatches = 1000, kMostImages = 10'000;  // the table is held in memory
  PredictionsConfig predictions;
  predictions.batches = options.get<int64_t>(
      "num_batches_to_log", 1, "show the samples of this many evaluation batches, spread over the split; 0: none",
      {0, kMostBatches});
  predictions.images_per_batch = options.get<int64_t>("log_images_per_batch", predictions.images_per_batch,
                                                      "samples per batch; 0: none", {0, kMostImages});
  return predictions;
}

HistogramsConfig read_histograms(Options& options) {
  HistogramsConfig histograms;
  histograms.every = read_interval(options, "every", "1ep", "never", false, "1ep, 200st, or never");
  histograms.bins = options.get<int64_t>("bins", histograms.bins,
                                         "bins of equal width, from the smallest to the largest number", {1, 1000});
  return histograms;
}

ProfileConfig read_profile(Options& options) {
  constexpr int64_t kMostSteps = 1000;  // a trace takes some 100 kB per step
  ProfileConfig profile;
  const auto text = options.get<std::string>("steps", "10..20", "the first and the last step to trace");
  if (const auto steps = parse_steps(text)) {
    profile.steps = *steps;
  } else {
    options.reject("steps", "expected the first and the last step, such as 10..20, found \"" + text + "\"");
  }
  if (profile.steps.last - profile.steps.first >= kMostSteps)
    options.reject("steps", "expected at most " + std::to_string(kMostSteps) + " steps, found " + text);
  profile.ranks =
      options.get<int64_t>("ranks", profile.ranks, "how many ranks write a trace, from rank 0 on", {1, 1024});
  profile.shapes = options.get<bool>("shapes", profile.shapes, "also record the shapes of each operation's tensors");
  profile.memory = options.get<bool>("memory", profile.memory, "also record every allocation");
  return profile;
}

}  // namespace ddprun
