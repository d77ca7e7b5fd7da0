// SPDX-License-Identifier: MIT
// `ddprun diff A B`: what two runs were made of, the first digest in which they differ, and the operator that gave
// other numbers first. A and B are run folders, or files that `ddprun replay --out` has written.
#include "base/log.h"
#include "base/private_folder.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "features/record/parting.h"
#include "features/record/record_difference.h"
#include "features/record/record_file.h"
#include "features/record/run_facts.h"
#include "features/record/steps_again.h"
#include "launch/worker_process.h"

#include <ddprun/error.h>

#include <iostream>
#include <optional>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

struct Side {
  std::string name;                // as it was given
  std::optional<ReplayedRun> run;  // none: a file of recorded steps
  RecordedSteps steps;
};

Side side_of(const std::string& name) {
  Side side{.name = name};
  std::error_code error;
  if (fs::is_regular_file(name, error)) {
    side.steps = read_recorded_steps(name);
  } else {
    side.run = replayed_run(name);
    side.steps.facts = run_facts(side.run->path);
  }
  return side;
}

void show_facts(const Side& first, const Side& second) {
  for (const auto& line : differences(first.steps.facts, second.steps.facts)) std::cout << paragraph(line, 2);
}

void show_parting(const Side& first, const Side& second, const Parting& parting, const DigestComparison& found,
                  const fs::path& folder) {
  if (parting.place.empty()) {
    std::cout << "  made again, both come to the same bits\n";
  } else {
    std::cout << paragraph("made again, they part in " + parting.place, 2);
  }
  const auto show_unsteadiness = [&](const Side& side, const fs::path& into) {
    std::cout << paragraph(side.name + " does not come to its own bits again: " +
                               unsteadiness(*side.run, found.same, found.other, 0, into),
                           2);
  };
  if (!parting.first_as_then) show_unsteadiness(first, folder / "first_twice");
  if (!parting.second_as_then) show_unsteadiness(second, folder / "second_twice");
}

int compare_runs(const Side& first, const Side& second) {
  const auto found = compare_digests(first.run->digests, second.run->digests);
  if (found.compared == 0)
    throw UserError(
        "no step has a digest in both runs, which are noted at rows of metrics and checkpoints; compare a "
        "step of your choice: ddprun replay RUN --step N --out FILE for each, then ddprun diff FILE FILE");
  std::cout << "diff: ";
  if (found.other == 0) {
    std::cout << "the same bits in all " << found.compared << " digests that both have, up to step " << found.last
              << "\n";
    show_facts(first, second);
    return kExitDone;
  }
  if (found.same > 0) std::cout << "the same bits up to step " << found.same << ", ";
  std::cout << "other bits after step " << found.other << "\n";
  show_facts(first, second);
  std::cout << std::flush;
  const PrivateFolder folder;
  const auto parting = parting_of({*first.run, *second.run, found.same, found.other}, folder.path());
  if (parting.stopped) return kExitPreempted;
  show_parting(first, second, parting, found, folder.path());
  return kExitFailed;
}

// Makes the steps of a run again that are in the other side's file. Returns false if a signal has asked this process to
// end.
bool add_records(Side& side, const Side& other) {
  if (!side.run) return true;
  if (other.steps.records.empty()) throw UserError(other.name + " has no steps");
  const auto first = other.steps.records.begin()->first, last = other.steps.records.rbegin()->first;
  require_made(*side.run, last);
  auto steps = steps_to_make(*side.run, first, last, 0);
  steps.record.steps = {first, last};
  const PrivateFolder folder;
  auto made = make_again(*side.run, steps, folder.path() / "made");
  if (made.stopped) return false;
  if (!made.records.contains(last)) throw UserError(cannot_be_made(*side.run, made, last));
  side.steps.records = std::move(made.records);
  side.steps.facts = run_facts(side.run->path, folder.path() / "made/run");
  return true;
}

int compare_records(Side& first, Side& second) {
  if (!add_records(first, second) || !add_records(second, first)) return kExitPreempted;
  int64_t common = 0;
  for (const auto& [step, record] : first.steps.records) {
    const auto other = second.steps.records.find(step);
    if (other == second.steps.records.end()) continue;
    ++common;
    const auto found = first_difference(record, other->second);
    if (!found) continue;
    std::cout << wrapped(log::text("diff: they part in step ", step, ", ", found->text), 0, 2) << "\n";
    show_facts(first, second);
    return kExitFailed;
  }
  if (common == 0)
    throw UserError(log::text(first.name, " and ", second.name,
                              " have no step in common: record the same one for both "
                              "with ddprun replay --step N --out FILE"));
  std::cout << "diff: the same bits in all operators of " << common << (common == 1 ? " step" : " steps")
            << ", up to step " << first.steps.records.rbegin()->first << "\n";
  show_facts(first, second);
  return kExitDone;
}

}  // namespace

int diff(const Arguments& arguments) {
  auto first = side_of(arguments.runs.at(0)), second = side_of(arguments.runs.at(1));
  return first.run && second.run ? compare_runs(first, second) : compare_records(first, second);
}

}  // namespace ddprun
