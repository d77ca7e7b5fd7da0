// SPDX-License-Identifier: MIT
#include "features/histograms/histograms_section.h"

#include "config/feature_section.h"
#include "config/interval.h"

namespace ddprun {
namespace {

HistogramsConfig read_histograms(Options& options) {
  HistogramsConfig histograms;
  histograms.every = read_interval(options, "every", "1ep", "never", false, "1ep, 200st, or never");
  histograms.bins = options.get<int64_t>("bins", histograms.bins,
                                         "bins of equal width, from the smallest to the largest number", {1, 1000});
  return histograms;
}

const Interval& every_of(const Experiment& experiment) { return experiment.features.of<HistogramsConfig>().every; }

}  // namespace

FeatureSection section_of_histograms() {
  auto section = feature_section<read_histograms>(
      "histograms", "distributions of weights and gradients for the loggers; none if absent");
  section.idle = {
      {"histograms.bins", [](const Experiment& e) { return every_of(e).none(); }, "histograms.every is never"}};
  section.beginnings = {{"histograms.every", "the first are drawn", [](const Experiment& e, int64_t steps_per_epoch) {
                           return every_of(e).steps + every_of(e).epochs * steps_per_epoch;
                         }}};
  return section;
}

}  // namespace ddprun
