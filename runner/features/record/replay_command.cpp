// SPDX-License-Identifier: MIT
// `ddprun replay RUN --step N`: makes the steps up to N again, from the newest checkpoint before it, compares the
// digests of both, and shows the step from inside.
#include "base/log.h"
#include "base/private_folder.h"
#include "base/program.h"
#include "base/run_files.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "features/record/parting.h"
#include "features/record/record_file.h"
#include "features/record/run_facts.h"
#include "features/record/step_page.h"
#include "features/record/step_view.h"
#include "features/record/steps_again.h"
#include "launch/worker_process.h"
#include "report/report.h"

#include <ddprun/error.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <set>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kStepsBefore = 3;  // that the step is compared with

std::string text_of(const DigestComparison& found) {
  if (found.compared == 0) return "the run has no digest of these steps to compare with";
  if (found.other == 0) return log::text("the same bits in ", found.compared, " of ", found.compared, " digests");
  return log::text("other bits after step ", found.other, ", the first of ", found.compared, " digests that differs");
}

// Returns how to make the step again, and those after it up to the next with a digest.
StepsToMake plan(const ReplayedRun& run, const Arguments& arguments) {
  require_made(run, arguments.step);
  const auto next = run.digests.lower_bound(arguments.step);
  auto steps =
      steps_to_make(run, arguments.step, next == run.digests.end() ? arguments.step : next->first, arguments.workers);
  steps.record.steps = {std::max(steps.first(), arguments.step - kStepsBefore), arguments.step};
  return steps;
}

std::string head_of(const StepsToMake& steps, const DigestComparison& found) {
  return log::text("replay: steps ", steps.first(), " to ", steps.last, " from ", steps.from(), ", ", steps.workers,
                   steps.workers == 1 ? " worker" : " workers", " (the run had ", steps.workers_then,
                   "): ", text_of(found));
}

// Returns the first line of what training said, without what is before the message.
std::string error_of(const std::string& failure) {
  constexpr std::string_view kError = "ddprun: error: ";
  const auto begin = failure.find(kError);
  if (begin == failure.npos) return last_line(failure);
  const auto text = failure.substr(begin + kError.size());
  return text.substr(0, text.find('\n'));
}

StepView view_of(std::map<int64_t, StepRecord> records, int64_t step) {
  StepView view{.record = std::move(records[step])};
  for (auto& [number, record] : records)
    if (number < step) view.before.push_back(std::move(record));
  return view;
}

// Throws UserError unless all these samples are in the batch, and not the whole batch.
void require_samples(const StepRecord& record, const std::vector<int64_t>& numbers) {
  std::set<int64_t> samples;
  for (const auto& part : record.parts)
    for (const auto& sample : part.samples) samples.insert(sample.number);
  for (const auto number : numbers) {
    if (samples.erase(number) == 0)
      throw UserError(log::text("--without ", number, ": the batch of step ", record.step,
                                " has no such sample; without this option its samples are shown"));
  }
  if (samples.empty()) throw UserError("--without: no sample of the batch is left");
}

// Makes the step without some of its samples. Returns false if a signal has asked this process to end.
bool add_without(StepView& view, const ReplayedRun& run, StepsToMake steps, const Arguments& arguments,
                 const fs::path& folder) {
  if (arguments.without.empty()) return true;
  require_samples(view.record, arguments.without);
  steps.last = arguments.step;
  steps.record = {.steps = {arguments.step, arguments.step}, .without = arguments.without};
  auto made = make_again(run, steps, folder);
  if (made.stopped) return false;
  if (!made.records.contains(arguments.step)) throw UserError(cannot_be_made(run, made, arguments.step));
  view.left_out = arguments.without;
  view.without = std::move(made.records[arguments.step]);
  return true;
}

// Returns why bits are others, as far as that can be found out: what has changed since, then whether the steps have the
// same bits each time that they are made.
std::string reasons(const ReplayedRun& run, const DigestComparison& found, int64_t workers, const fs::path& folder) {
  const auto now = run_facts(run.path, folder / "made/run");
  auto then = run_facts(run.path);
  then["environment"] = environment_facts(environment_of(run, found.other));
  std::erase_if(then["environment"], [&](const auto& fact) { return !now.at("environment").contains(fact.first); });
  std::string text;
  for (const auto& line : differences(then, now)) text += paragraph("since the run, " + line, 2);
  return text + paragraph(unsteadiness(run, found.same, found.other, workers, folder / "twice"), 2);
}

}  // namespace

int replay(const Arguments& arguments) {
  const auto run = replayed_run(arguments.target);
  const auto steps = plan(run, arguments);
  const fs::path page =
      arguments.page.empty() ? log::text(run.experiment.name, "_step_", arguments.step, ".html") : arguments.page;
  require_page(kStepPage, page);
  std::optional<NewFile> out;
  if (!arguments.out.empty()) out.emplace(arguments.out);
  const PrivateFolder folder;
  bool is_shown = false;  // while the steps after it are made, which show whether the bits are those of the run
  const auto show = [&](std::map<int64_t, StepRecord> records) {
    is_shown = arguments.without.empty();
    if (is_shown) std::cout << step_text(view_of(std::move(records), arguments.step)) << std::flush;
  };
  auto made = make_again(run, steps, folder.path() / "made", show);
  if (made.stopped) return kExitPreempted;
  if (!made.records.contains(arguments.step)) throw UserError(cannot_be_made(run, made, arguments.step));
  made.digests.erase(made.digests.upper_bound(steps.last), made.digests.end());
  auto found = compare_digests(made.digests, run.digests);
  if (found.same == 0) found.same = steps.first() - 1;
  if (out) {
    write_recorded_steps({run.path.string(), run_facts(run.path, folder.path() / "made/run"), made.records},
                         out->temporary());
    out->keep();
  }
  auto view = view_of(std::move(made.records), arguments.step);
  if (!add_without(view, run, steps, arguments, folder.path() / "without")) return kExitPreempted;
  const auto head = head_of(steps, found);
  if (!is_shown) std::cout << step_text(view);
  if (!made.digests.contains(arguments.step))
    std::cout << paragraph("in this step training ended: " + error_of(made.failure), 2);
  std::cout << wrapped(head, 0, 2) << "\n";
  if (found.other > 0) std::cout << reasons(run, found, steps.workers, folder.path()) << std::flush;
  write_step_page(run.path, view, head, page);
  std::cout << "The page with the samples and all gradients: " << page.string() << "\n";
  if (!arguments.out.empty()) std::cout << "The steps, for `ddprun diff`: " << arguments.out << "\n";
  return found.other == 0 ? kExitDone : kExitFailed;
}

}  // namespace ddprun
