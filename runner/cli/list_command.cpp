// SPDX-License-Identifier: MIT
// `ddprun list [FOLDER]`: which runs there are, and how they stand.
#include "base/clock.h"
#include "cli/commands.h"
#include "launch/worker_process.h"
#include "report/run_list_text.h"

#include <sys/ioctl.h>
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
constexpr size_t kColumns = 80;

ListStyle style_of_output() {
  ListStyle style{.columns = kColumns, .terminal = ::isatty(STDOUT_FILENO) != 0, .now = wall_seconds()};
  winsize size{};
  if (style.terminal && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) style.columns = size.ws_col;
  const char* no_color = std::getenv("NO_COLOR");
  style.color = style.terminal && (!no_color || *no_color == '\0');
  return style;
}

// Nobody has to make outputs/ before the first run.
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
    const auto text = run_list_text(runs, style_of_output());  // with colours, and names without control characters
    std::fwrite(text.data(), 1, text.size(), stdout);
    for (const auto& run : runs) {
      if (run.state.status == "elsewhere") std::cout << run.label << ": " << run.state.reason << "\n";
    }
  }
  return kExitDone;
}

}  // namespace ddprun
