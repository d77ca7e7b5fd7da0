// SPDX-License-Identifier: MIT
// What the features of trainings (runner/features) declare of the experiment file, each in its folder: a section, or
// keys in one of the core's, which become a struct of its own in Experiment::features, and what is said of its keys.
#pragma once

#include "config/experiment.h"

#include <ddprun/options.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

// A key that has no effect in an experiment, and why.
struct IdleKey {
  const char* key;
  bool (*is_idle)(const Experiment& experiment);
  const char* why;
};

// A key whose `Config::steps` a run with trainer.max_steps may end before.
template <class Config>
IdleKey steps_behind_the_end(const char* key) {
  return {key,
          [](const Experiment& experiment) {
            const auto end = experiment.trainer.max_steps;
            return end > 0 && experiment.features.of<Config>().steps.first > end;
          },
          "the run ends before them (trainer.max_steps)"};
}

// A key of what begins at a step that a run may not come to.
struct BeginningKey {
  const char* key;
  const char* what;                                                        // "the profile begins"
  int64_t (*step)(const Experiment& experiment, int64_t steps_per_epoch);  // 0: nothing does
};

struct FeatureSection {
  const char* name;                                        // "record", or the core's "trainer", which its keys join
  const char* help;                                        // null: they join one of the core's
  void (*read)(Options& options, Experiment& experiment);  // called after the core's keys, if the section is read
  std::vector<IdleKey> idle = {};
  std::vector<BeginningKey> beginnings = {};
};

// Makes one of the struct that `Read` returns. Without help its keys join a section of the core.
template <auto Read>
FeatureSection feature_section(const char* name, const char* help = nullptr) {
  return {.name = name, .help = help, .read = [](Options& options, Experiment& experiment) {
            experiment.features.set(Read(options));
          }};
}

// The declarations of the features of this build, in their order.
std::vector<FeatureSection> feature_sections();

// Returns the names of the sections that have no keys but a feature's.
inline std::vector<std::string_view> sections_of_features() {
  std::vector<std::string_view> names;
  for (const auto& section : feature_sections())
    if (section.help) names.emplace_back(section.name);
  return names;
}

// A key that asks for a feature which this build was made without (DDPRUN_FEATURES).
struct AbsentFeature {
  std::string_view key;      // "trainer.verify_shards"
  std::string_view value;    // "auto": only this value of the key asks for it; empty: each does
  std::string_view feature;  // "verify_shards"
};

std::vector<AbsentFeature> absent_features();

// Returns what is said of a feature that a word asks for and this build was made without.
inline std::string absence_text(std::string_view feature) {
  return "this ddprun was built without the feature " + std::string(feature) + " (cmake -D DDPRUN_FEATURES)";
}

}  // namespace ddprun
