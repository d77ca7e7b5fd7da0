// SPDX-License-Identifier: MIT
#include "plugin_host/plugin_check.h"

#include "base/program.h"
#include "base/spawn.h"
#include "plugin_host/plugin_host.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <system_error>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

// Each of the child's lines begins with one of these.
constexpr std::string_view kDoing = "doing ", kFact = "fact ", kProblem = "problem ";
constexpr std::string_view kLast = "at the end of the process";

bool is_key(const std::string& name) {
  return !name.empty() && std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) || c == '_'; });
}

std::vector<std::string> flaws_of(const std::vector<OptionDeclaration>& options) {
  std::vector<std::string> flaws;
  for (const auto& option : options) {
    const auto who = "option " + option.name + ": ";
    if (!is_key(option.name)) flaws.push_back(who + "a name of letters, digits and _ can be written as key=value");
    if (option.help.empty()) flaws.push_back(who + "it has no help, which `ddprun plugins show` would print");
  }
  return flaws;
}

std::string options_text(const std::vector<OptionDeclaration>& options) {
  const auto required = std::ranges::count(options, true, &OptionDeclaration::required);
  return std::to_string(options.size()) + (options.size() == 1 ? " option" : " options") +
         (required > 0 ? ", " + std::to_string(required) + " of them required" : "");
}

using Say = std::function<void(const std::string&)>;

// Runs in the child.
void load_and_construct(const PluginInfo& info, const Say& say) {
  const auto report = [&](std::string_view sort, const std::string& text) { say(std::string(sort) + text); };
  try {
    report(kDoing, "while it was loaded");
    const auto& descriptor = load_plugin_file(info.file);
    report(kFact, "it loads");
    report(kDoing, "in its constructor");
    const auto description = PluginHost({}).describe(fs::absolute(info.file).string(), info.kind);
    if (description.problem.empty()) report(kFact, "it is constructed: " + options_text(description.options));
    if (!description.problem.empty()) report(description.refused ? kFact : kProblem, description.problem);
    for (const auto& flaw : flaws_of(description.options)) report(kProblem, flaw);
    report(kDoing, std::string(kLast));
    end_plugin(descriptor);
  } catch (const std::exception& error) {
    report(kProblem, error.what());
  }
}

void take(const TrialEnd& end, PluginCheck& check) {
  std::string doing;
  for (const auto& line : end.lines) {
    if (line.starts_with(kDoing)) doing = line.substr(kDoing.size());
    if (line.starts_with(kFact)) check.facts.push_back(line.substr(kFact.size()));
    if (line.starts_with(kProblem)) check.problems.push_back(line.substr(kProblem.size()));
  }
  if (!end.problem.empty()) check.problems.push_back(end.problem + " " + doing);
  if (check.problems.empty() && doing != kLast) check.problems.push_back("it ends the process " + doing);
}

bool is_same_file(const fs::path& one, const fs::path& other) {
  std::error_code error;
  return fs::equivalent(one, other, error);
}

}  // namespace

PluginCheck check_plugin(const fs::path& file, const std::vector<PluginInfo>& others,
                         std::chrono::milliseconds patience) {
  PluginCheck check{.info = read_plugin_file(file)};
  if (!check.info.problem.empty()) {
    check.problems.push_back(check.info.problem);
    return check;
  }
  check.facts.emplace_back("its descriptor fits this ddprun");
  take(in_child([&](const Say& say) { load_and_construct(check.info, say); }, patience), check);
  for (const auto& other : others) {
    const bool clashes = other.problem.empty() && other.kind == check.info.kind && other.name == check.info.name;
    if (clashes && !is_same_file(other.file, file))
      check.problems.push_back("the name is taken: " + other.file.string() + " is the " + other.kind + " " +
                               other.name + " too, and an experiment could mean either");
  }
  return check;
}

namespace {

void send_line(int fd, std::string line) {
  for (size_t at; (at = line.find('\n')) != std::string::npos;) line.replace(at, 1, "; ");
  line += '\n';
  if (::write(fd, line.data(), line.size()) < 0) std::abort();
}

std::string end_text(const ProgramEnd& end) {
  constexpr int kSignalBase = 128;
  if (end.cut) return "it hangs";
  if (end.exit_code > kSignalBase) return signal_name(end.exit_code - kSignalBase);
  return end.exit_code == 0 ? "" : "exit code " + std::to_string(end.exit_code);
}

}  // namespace

TrialEnd in_child(const std::function<void(const std::function<void(const std::string&)>& say)>& work,
                  std::chrono::milliseconds patience) {
  auto pipe = make_pipe();
  std::fflush(nullptr);  // otherwise the child would write it again
  const auto child = ::fork();
  if (child < 0) throw std::system_error(errno, std::generic_category(), "no process can be started");
  if (child == 0) {
    pipe.read.reset();
    work([fd = pipe.write.get()](const std::string& line) { send_line(fd, line); });
    std::fflush(nullptr);
    ::_exit(0);
  }
  pipe.write.reset();
  const auto trial =
      end_of_program(child, pipe.read.get(), {.seconds = std::chrono::duration<double>(patience).count()});
  TrialEnd end{.problem = end_text(trial)};
  std::istringstream lines(trial.output);
  for (std::string line; std::getline(lines, line);) end.lines.push_back(line);
  return end;
}

}  // namespace ddprun
