// SPDX-License-Identifier: MIT
// The commands on existing runs: list, report.
#include "agent/chosen_checkpoint.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/terminal.h"
#include "cli/commands.h"
#include "launch/worker_process.h"
#include "report/folds.h"
#include "report/report.h"
#include "report/run_list.h"

#include <ddprun/error.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <limits>

namespace ddprun {
namespace {

constexpr const char* kDefaultFolder = "outputs";

ListStyle style_of_output() {
  ListStyle style{.now = wall_seconds()};
  if (const auto columns = terminal_columns(STDOUT_FILENO)) {
    const char* no_color = std::getenv("NO_COLOR");
    style.columns = *columns;
    style.color = !no_color || *no_color == '\0';
  }
  return style;
}

// Returns the runs in the folder; outputs/ need not exist before the first run.
std::vector<ListedRun> runs_in(const std::string& folder) {
  std::error_code error;
  if (folder.empty() && !std::filesystem::exists(kDefaultFolder, error)) return {};
  return list_runs(folder.empty() ? kDefaultFolder : folder);
}

void put_best_first(std::vector<ListedRun>& runs) {
  const auto merit = [](const ListedRun& run) {
    const auto best = run.state.best.value_or(std::nan(""));
    return std::isnan(best) ? -std::numeric_limits<double>::infinity() : run.state.maximize ? best : -best;
  };
  std::ranges::stable_sort(runs, std::greater(), merit);
}

}  // namespace

int list(const Arguments& arguments) {
  auto runs = runs_in(arguments.target);
  if (arguments.best_first) put_best_first(runs);
  if (arguments.json) {
    std::cout << run_list_json(runs).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << "\n";
  } else if (runs.empty()) {
    std::cout << "no runs in " << (arguments.target.empty() ? kDefaultFolder : arguments.target) << "\n";
  } else {
    const auto text =
        run_list_text(runs, style_of_output());  // uses colours, and removes control characters from names
    std::fwrite(text.data(), 1, text.size(), stdout);
    for (const auto& run : runs) {
      if (!run.flaw.empty()) std::cout << log::shown(run.flaw) << "\n";
      if (run.state.status == RunStatus::kElsewhere)
        std::cout << log::shown(run.label + ": " + run.state.reason) << "\n";
    }
    std::cout << folds_text(runs);
  }
  return kExitDone;
}

// `ddprun report RUN...`: writes one run, or several compared, as one HTML file.

int report(const Arguments& arguments) {
  std::vector<std::filesystem::path> runs;
  for (const auto& word : arguments.runs) {
    auto run = existing_run(word);
    if (std::ranges::find(runs, run) == runs.end()) runs.push_back(std::move(run));
  }
  std::filesystem::path out = arguments.out;
  if (out.empty()) out = runs.size() == 1 ? runs[0] / "report.html" : "report.html";
  write_report(runs, out);
  std::cout << out.string() << "\n";
  return kExitDone;
}

}  // namespace ddprun
