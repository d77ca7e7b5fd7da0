// SPDX-License-Identifier: MIT
#include "features/record/parting.h"

#include "base/log.h"
#include "cli/tensor_difference.h"
#include "features/record/record_difference.h"

#include <ddprun/error.h>
#include <ddprun/safetensors.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMostRecorded = 16;  // steps at once; of more, their digests are looked at before

struct Made {
  StepsMade first, second;
  fs::path first_run, second_run;

  bool stopped() const { return first.stopped || second.stopped; }
};

// Makes the steps of both up to runs.other.
Made make_both(const Runs& runs, const fs::path& folder, const RecordConfig& record, bool every_digest) {
  const auto make = [&](const ReplayedRun& run, const fs::path& into) {
    auto steps = steps_to_make(run, runs.same + 1, runs.other, runs.workers);
    steps.record = record;
    steps.every_digest = every_digest;
    auto made = make_again(run, steps, into);
    if (!made.stopped && !made.digests.contains(runs.other)) throw UserError(cannot_be_made(run, made, runs.other));
    return made;
  };
  Made made{.first_run = folder / "first/run", .second_run = folder / "second/run"};
  made.first = make(runs.first, folder / "first");
  if (!made.first.stopped) made.second = make(runs.second, folder / "second");
  return made;
}

// Returns the first step after runs.same whose digests differ.
std::optional<int64_t> first_difference_of(const Runs& runs, const Made& made) {
  for (auto one = made.first.digests.upper_bound(runs.same); one != made.first.digests.end(); ++one) {
    const auto other = made.second.digests.find(one->first);
    if (one->first <= runs.other && other != made.second.digests.end() && one->second.digest != other->second.digest)
      return one->first;
  }
  return std::nullopt;
}

// Returns what the workers of a run have kept of one operator.
TensorDict kept_by(const fs::path& run, int64_t workers) {
  std::error_code error;
  for (int64_t rank = 0; rank < workers; ++rank) {
    const auto file = kept_tensors_file(run, rank);
    if (fs::exists(file, error)) return read_safetensors(file);
  }
  return {};
}

int64_t workers_of(const StepsMade& made) {
  return made.digests.empty() ? 0 : made.digests.rbegin()->second.makers.workers;
}

// Returns "; 3 of 320 numbers, by up to 6e-08" for the operator whose results differ.
std::string numbers_of(const Runs& runs, int64_t step, const OperatorPlace& place, const fs::path& folder) {
  const RecordConfig record{.steps = {step, step}, .kept = {place.rank, place.part, place.number}};
  auto upto = runs;
  upto.other = step;
  const auto made = make_both(upto, folder, record, false);
  if (made.stopped()) return "";
  const auto first = kept_by(made.first_run, workers_of(made.first));
  const auto second = kept_by(made.second_run, workers_of(made.second));
  for (const auto& [name, tensor] : first) {
    const auto other = second.find(name);
    if (other != second.end() && !same_bits(tensor, other->second))
      return ": they differ in " + difference_text(tensor, other->second);
  }
  return "";
}

// Returns the last step after `same` that an attempt made with another experiment than that of `other`; 0 if there is
// none.
int64_t last_of_another_experiment(const ReplayedRun& run, int64_t same, int64_t other) {
  const auto end = run.digests.find(other);
  if (end == run.digests.end()) return 0;
  int64_t last = 0;
  for (auto one = run.digests.upper_bound(same); one != run.digests.end() && one->first < other; ++one)
    if (one->second.makers.experiment != end->second.makers.experiment) last = one->first;
  return last;
}

}  // namespace

Parting parting_of(const Runs& runs, const fs::path& folder) {
  const bool is_long = runs.other - runs.same > kMostRecorded;
  const RecordConfig between{.steps = {runs.same + 1, runs.other}};
  auto made = make_both(runs, folder / "steps", is_long ? RecordConfig() : between, is_long);
  Parting parting{.stopped = made.stopped()};
  if (parting.stopped) return parting;
  const auto as_then = [&](const ReplayedRun& run, const StepsMade& again) {
    const auto then = run.digests.find(runs.other);
    return then == run.digests.end() || then->second.digest == again.digests.at(runs.other).digest;
  };
  parting.first_as_then = as_then(runs.first, made.first);
  parting.second_as_then = as_then(runs.second, made.second);
  const auto step = first_difference_of(runs, made);
  if (!step) return parting;
  auto upto = runs;
  upto.other = *step;
  if (is_long) made = make_both(upto, folder / "step", {.steps = {*step, *step}}, false);
  if (made.stopped()) return {.stopped = true};
  const auto found = first_difference(made.first.records[*step], made.second.records[*step]);
  parting.place = log::text("step ", *step, found ? ", " + found->text : "");
  if (found && found->results) parting.place += numbers_of(runs, *step, *found->results, folder / "operator");
  return parting;
}

std::string unsteadiness(const ReplayedRun& run, int64_t same, int64_t other, int64_t workers, const fs::path& folder) {
  if (const auto step = last_of_another_experiment(run, same, other); step > 0)
    return log::text("its experiment was changed when it was resumed after step ", step,
                     ", and the steps before that are made with the new one");
  const auto parting = parting_of({run, run, same, other, workers}, folder);
  if (parting.stopped) return "it was not looked at why";
  if (parting.place.empty())
    return "made twice they are the same, so the run had other data then, its machine or libraries computed otherwise, "
           "or a fault changed a bit";
  return "made twice they are others each time, so something draws numbers that nothing seeds, or depends on time or "
         "threads: "
         "they part in " +
         parting.place;
}

}  // namespace ddprun
