// SPDX-License-Identifier: MIT
#include "command_line/plain_commands.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/terminal.h"
#include "cluster/placement_text.h"
#include "command_line/shipped_schema.h"
#include "config/config_files.h"
#include "launch/machine.h"
#include "launch/run_folder.h"
#include "launch/worker_process.h"
#include "report/report.h"
#include "runs/folds.h"
#include "runs/run_json.h"
#include "runs/run_list.h"

#include <ddprun/files.h>
#include <ddprun/version.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iostream>
#include <limits>
#include <map>

namespace ddprun {
namespace {

std::optional<int> show_known_schema(const Arguments& arguments) {
  if (!arguments.target.empty() || !arguments.group.empty() || !arguments.build.empty()) return std::nullopt;
  const auto schema = shipped_schema();
  return schema ? std::optional(print_schema(arguments, *schema)) : std::nullopt;
}

struct PlainCommand {
  std::string_view name;  // in commands()
  std::optional<int> (*run)(const Arguments& arguments);
};

template <int (*kRun)(const Arguments&)>
std::optional<int> always(const Arguments& arguments) {
  return kRun(arguments);
}

constexpr auto kFunctions = std::to_array<PlainCommand>({{"list", always<list>},
                                                         {"report", always<report>},
                                                         {"experiments", always<list_experiments>},
                                                         {"env", always<env>},
                                                         {"docs", always<show_docs>},
                                                         {"schema", show_known_schema}});

// Returns the first sentence of the comment that a file begins with, or the part before a colon in it.
std::string title_of(const std::filesystem::path& file) {
  std::ifstream lines(file);
  std::string text;
  for (std::string line; std::getline(lines, line) && line.size() > 2 && line.starts_with("# ");) {
    text += (text.empty() ? "" : " ") + line.substr(2);
    for (size_t end = 0; (end = text.find_first_of(".:", end)) != text.npos; ++end) {
      if (end + 1 == text.size() || text[end + 1] == ' ') return text.substr(0, end);
    }
  }
  return text;
}

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

int list_experiments(const Arguments&) {
  std::map<std::string, std::string> found;
  for (const auto& folder : config_search_path()) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder / "experiments", error)) {
      if (entry.path().extension() == ".yaml") found.try_emplace(entry.path().stem().string(), title_of(entry.path()));
    }
  }
  size_t width = 0;
  for (const auto& [name, text] : found) width = std::max(width, name.size());
  std::cout << "ddprun experiments/NAME.yaml trains:\n";
  for (const auto& [name, text] : found)
    std::cout << "  " << padded(name, width + 2) << wrapped(text, width + 4, width + 4) << "\n";
  return kExitDone;
}

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

// `ddprun report RUN...`: writes one run, or several compared, as one HTML file, or prints what is known of them.
int report(const Arguments& arguments) {
  if (arguments.json) {
    std::string text;
    for (const auto& word : arguments.runs) text += (text.empty() ? "[" : ",\n") + run_json(word, arguments.rows);
    std::cout << text << "]\n";
    return kExitDone;
  }
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

// `ddprun env`: shows how this process was started and its place in a job.
int env(const Arguments& arguments) {
  const auto placement = find_placement(arguments.launch, process_environment());
  const Installation installation{.ddprun = DDPRUN_VERSION,
                                  .libtorch = DDPRUN_TORCH_VERSION,
                                  .gpus = static_cast<int64_t>(find_gpu_driver().gpus.size()),
                                  .cores = usable_cores()};
  std::cout << (arguments.json ? placement_json(placement, installation) : placement_text(placement, installation));
  return kExitDone;
}

bool is_plain_command(std::string_view name) {
  return std::ranges::find(kFunctions, name, &PlainCommand::name) != kFunctions.end();
}

std::optional<int> run_plain_command(const Arguments& arguments) {
  const auto command = std::ranges::find(kFunctions, arguments.command, &PlainCommand::name);
  return command == kFunctions.end() ? std::nullopt : command->run(arguments);
}

int print_schema(const Arguments& arguments, const std::string& schema) {
  if (arguments.out.empty()) {
    std::cout << schema;
  } else {
    replace_file(arguments.out, schema);
  }
  return kExitDone;
}

}  // namespace ddprun
