// SPDX-License-Identifier: MIT
#include "features/profile/profile_section.h"

#include "config/feature_section.h"
#include "config/sections.h"

namespace ddprun {
namespace {

ProfileConfig read_profile(Options& options) {
  constexpr int64_t kMostSteps = 1000;  // a trace takes some 100 kB per step
  ProfileConfig profile;
  profile.steps = read_steps(options, "10..20", kMostSteps, "the first and the last step to trace");
  profile.ranks =
      options.get<int64_t>("ranks", profile.ranks, "how many ranks write a trace, from rank 0 on", {1, 1024});
  profile.shapes = options.get<bool>("shapes", profile.shapes, "also record the shapes of each operation's tensors");
  profile.memory = options.get<bool>("memory", profile.memory, "also record every allocation");
  return profile;
}

}  // namespace

FeatureSection section_of_profile() {
  auto section = feature_section<read_profile>(
      "profile", "which steps are traced for chrome://tracing or Perfetto, {steps: 10..20}; none if absent");
  section.idle = {steps_behind_the_end<ProfileConfig>("profile.steps")};
  section.beginnings = {{"profile.steps", "the profile begins", [](const Experiment& e, int64_t /*steps_per_epoch*/) {
                           return e.trainer.max_steps > 0 ? 0 : e.features.of<ProfileConfig>().steps.first;
                         }}};
  return section;
}

}  // namespace ddprun
