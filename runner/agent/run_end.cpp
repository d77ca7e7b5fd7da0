// SPDX-License-Identifier: MIT
#include "agent/run_end.h"

#include "base/log.h"
#include "launch/run_folder.h"
#include "launch/worker_process.h"
#include "metrics/run_summary.h"
#include "report/report.h"
#include "runs/lr_suggestion.h"

#include <ddprun/error.h>

#include <chrono>
#include <exception>
#include <iostream>

namespace ddprun {
namespace {

constexpr std::chrono::seconds kPatience{60}, kPatienceOfStopped{10};

}  // namespace

void close_run(const std::filesystem::path& run_dir) noexcept try {
  write_report(run_dir);
} catch (const std::exception& error) {
  log::warn(std::string("after the run: ") + error.what());
}

void send_rest(Sidecars& sidecars, const std::filesystem::path& run_dir, bool stop_requested) noexcept try {
  const auto unsent = sidecars.finish(stop_requested ? kPatienceOfStopped : kPatience);
  for (const auto& one : unsent)
    log::warn(one.name + " does not have all of the run: " + one.problem +
              ". Nothing is lost; send the rest with: " + one.command);
  if (unsent.empty()) return;
  note_unsent(run_dir, unsent);
  close_run(run_dir);  // once more: the report says it, too
} catch (const std::exception& error) {
  log::warn(std::string("after the run: ") + error.what());
}

void show_how_to_resume(const std::filesystem::path& run_dir, bool is_range_test) {
  log::info((is_range_test ? "the range test is not finished; repeat it from its start with: ddprun resume "
                           : "the run is saved; resume with: ddprun resume ") +
            run_dir.string());
}

void show_end(const std::filesystem::path& run_dir, int exit_code, bool is_range_test) {
  if (exit_code == kExitDone) log::info("the run is done: " + kept_elsewhere(run_dir).value_or(run_dir.string()));
  if (exit_code == kExitPreempted) show_how_to_resume(run_dir, is_range_test);
}

int report_what_is_missing(const std::filesystem::path& run_dir, int exit_code) try {
  const auto missing = read_missing(run_dir);
  for (const auto& one : missing) log::error(one);
  if (missing.empty() || exit_code != kExitDone) return exit_code;
  if (missing.front().starts_with(kTestFailed))
    log::info("the run is trained and saved; make its test, when that is mended, with: ddprun evaluate " +
              run_dir.string());
  return kExitFailed;
} catch (const UserError& error) {
  log::error(std::string("it is not known whether something is missing: ") + error.what());
  return exit_code == kExitDone ? kExitFailed : exit_code;
}

int show_suggested_lr(const std::filesystem::path& run_dir) {
  const auto found = suggest_lr(run_dir).value_or(LrSuggestion{.remark = "its config.yaml cannot be read"});
  const auto report = (run_dir / "report.html").string();
  if (!found.lr) {
    log::error("no learning rate can be suggested: " + found.remark + ". The curve is in " + report);
    return kExitFailed;
  }
  std::cout << "\nSuggestion: optimizer.lr=" << lr_text(*found.lr) << ", where the loss falls fastest\n"
            << "        or: optimizer.lr=" << lr_text(found.halfway_lr())
            << ", halfway from there to where it is lowest\n"
            << "        or: optimizer.lr=" << lr_text(found.lowest_lr / 10) << ", a tenth of where it is lowest\n"
            << "The curve is in " << report << "\n";
  if (!found.remark.empty()) std::cout << "Note: " << found.remark << "\n";
  std::cout.flush();
  return kExitDone;
}

}  // namespace ddprun
