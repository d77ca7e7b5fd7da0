// SPDX-License-Identifier: MIT
#include "cli/multirun.h"

#include "agent/checked_experiment.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/program.h"
#include "base/run_files.h"
#include "base/spawn.h"
#include "cli/commands.h"
#include "command_line/plain_commands.h"
#include "config/config_files.h"
#include "launch/signal_inbox.h"
#include "launch/worker_process.h"
#include "metrics/run_summary.h"
#include "submit/submission.h"

#include <ddprun/error.h>
#include <ddprun/files.h>

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <optional>
#include <string_view>
#include <system_error>

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// Splits at commas outside brackets, braces and quotes.
Words alternatives(std::string_view value) {
  Words parts{""};
  std::string open;  // closing characters of the brackets and quotes around this place
  for (size_t i = 0; i < value.size(); ++i) {
    const char c = value[i];
    const bool quoted = !open.empty() && (open.back() == '"' || open.back() == '\'');
    if (!open.empty() && c == open.back()) {
      open.pop_back();
    } else if (!quoted) {
      const auto bracket = std::string_view("[{(\"'").find(c);
      if (bracket != std::string_view::npos) open += "]})\"'"[bracket];
    }
    if (c == ',' && open.empty()) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// Returns 0, 1, 2 of "0..2"; any other value alone.
Words range_of(const std::string& value) {
  constexpr int64_t kMost = 10'000;
  int64_t first = 0, last = 0;
  const char *begin = value.data(), *end = begin + value.size();
  const auto [dots, problem] = std::from_chars(begin, end, first);
  if (problem != std::errc{} || !std::string_view(dots, end).starts_with("..")) return {value};
  const auto [rest, other] = std::from_chars(dots + 2, end, last);
  if (other != std::errc{} || rest != end) return {value};
  if (first > last || last - first >= kMost)
    throw UserError("command line: " + value + ": expected a range of up to " + std::to_string(kMost) +
                    " numbers that ascend, such as 0..4");
  Words numbers;
  for (int64_t number = first; number <= last; ++number) numbers.push_back(std::to_string(number));
  return numbers;
}

Words choices_of(const std::string& override) {
  const auto equals = override.find('=');
  if (equals == std::string::npos) return {override};
  auto values = alternatives(std::string_view(override).substr(equals + 1));
  if (values.size() > 1 && std::ranges::find(values, "") != values.end())
    throw UserError("command line: " + override +
                    ": a value is missing before or after a comma; quote a value that contains a comma");
  Words choices;
  for (const auto& value : values) {
    for (const auto& number : range_of(value)) choices.push_back(override.substr(0, equals + 1) + number);
  }
  return choices;
}

// Returns the key of an override: "optimizer.lr" of "++optimizer.lr=0.1,0.2".
std::string_view key_of(std::string_view override) {
  override.remove_prefix(std::min(override.find_first_not_of("+~"), override.size()));
  return override.substr(0, override.find('='));
}

constexpr auto kSweep = ".multirun";  // the file that identifies the sweep of a folder
constexpr std::string_view kRunDir = "run.dir=";

// Returns the sweep's experiment and a line for each run, independent of where they lie.
std::string describe(const std::string& experiment, const std::vector<Words>& runs) {
  auto text = experiment + "\n";
  for (const auto& words : runs) {
    for (const auto& word : words) text += word.starts_with(kRunDir) ? "" : word + " ";
    text += "\n";
  }
  return text;
}

// Returns a new folder, or the existing one of the same sweep.
fs::path sweep_folder(const Experiment& experiment, const std::string& sweep) {
  auto folder = experiment.run_dir;
  if (folder.empty()) folder = fs::path("outputs") / experiment.name / ("multirun_" + local_time_stamp());
  if (!fs::exists(folder)) {
    fs::create_directories(folder);
    replace_file(folder / kSweep, sweep);
    return folder;
  }
  if (content_of(folder / kSweep) != sweep)
    throw UserError("run.dir: " + folder.string() + " already exists and is not the folder of this sweep");
  return folder;
}

bool is_done(const fs::path& run) { return has_trained_to_the_end(enum_of<RunStatus>(read_run_end(run).status)); }

// Returns the swept overrides of this run.
std::string difference(const Words& words, const Words& given) {
  std::string text;
  for (const auto& word : words) {
    if (std::ranges::find(given, word) == given.end()) text += (text.empty() ? "" : " ") + word;
  }
  return text;
}

// Waits until the run has ended, forwarding signals to it.
int wait_for(pid_t run, SignalInbox& inbox) {
  while (true) {
    if (const auto code = wait_until(run, std::chrono::steady_clock::now())) return *code;
    pollfd waiting{inbox.fd(), POLLIN, 0};
    ::poll(&waiting, 1, -1);
    for (const int signal : inbox.take()) {
      if (signal == SIGCHLD) continue;
      ::kill(run, signal);
      if (signal != SIGTSTP) continue;
      ::raise(SIGSTOP);
      ::kill(run, SIGCONT);
    }
  }
}

// Starts the run, or resumes it if it has begun.
pid_t start(const std::string& experiment, const Words& words, const fs::path& run_dir) {
  SpawnRequest request{.command = {own_program().string()}, .environment = own_environment()};
  if (fs::exists(run_dir / "config.yaml")) {
    request.command.insert(request.command.end(), {"resume", run_dir.string()});
  } else {
    request.command.insert(request.command.end(), {"run", experiment});
    std::ranges::copy(words, std::back_inserter(request.command));
    request.command.push_back(std::string(kRunDir) + run_dir.string());
  }
  return spawn(request);
}

// Returns whether someone stopped the run; a crash does not count.
bool was_stopped(int code) {
  constexpr std::array kStops{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGQUIT};
  return code == kExitPreempted || std::ranges::find(kStops, code - kExitSignalBase) != kStops.end();
}

void show_how_to_continue(const Arguments& arguments, const fs::path& folder, size_t not_started) {
  auto words = arguments.words;
  const auto says_where = [](const auto& word) { return word.starts_with(kRunDir); };
  if (std::ranges::none_of(words, says_where)) words.push_back(std::string(kRunDir) + folder.string());
  log::info(log::text("the sweep is stopped", not_started > 0 ? log::text("; ", not_started, " more not started") : "",
                      "; resume with: ", shell_words(words)));
}

}  // namespace

std::vector<Words> combinations(const Words& overrides) {
  std::vector<Words> result{{}};
  for (const auto& override : overrides) {
    const auto choices = choices_of(override);
    if (choices.size() > 1 && std::ranges::count(overrides, key_of(override), key_of) > 1)
      throw UserError("command line: " + override + ": " + std::string(key_of(override)) +
                      " is given more than once, and only the last would count; keep one");
    std::vector<Words> longer;
    for (const auto& words : result) {
      for (const auto& choice : choices) longer.emplace_back(words).push_back(choice);
    }
    result = std::move(longer);
  }
  return result;
}

int multirun(const Arguments& arguments) {
  if (const auto flag = arguments.launch.first())
    throw UserError(flag->name + ": -m runs on one machine; tools/sweep shares a sweep between several");
  const auto all = combinations(arguments.overrides);
  std::optional<Experiment> first;
  for (const auto& words : all) {
    auto checked =
        check_experiment({.experiment = arguments.target, .overrides = words, .search_path = config_search_path()});
    if (!first) first = std::move(checked.experiment);
  }
  const auto folder = sweep_folder(*first, describe(arguments.target, all));
  SignalInbox inbox;
  int result = kExitDone;
  size_t i = 0;
  for (; i < all.size() && !was_stopped(result); ++i) {
    const auto run = folder / std::to_string(i);
    if (is_done(run)) continue;
    log::info(log::text("run ", i + 1, " of ", all.size(), ": ", difference(all[i], arguments.overrides)));
    const int code = wait_for(start(arguments.target, all[i], run), inbox);
    if (was_stopped(code)) result = code;
    if (code != kExitDone && !was_stopped(code)) result = kExitFailed;
  }
  list({.target = folder.string(), .best_first = true});
  if (was_stopped(result)) show_how_to_continue(arguments, folder, all.size() - i);
  return result;
}

}  // namespace ddprun
