// SPDX-License-Identifier: MIT
#include "cluster/slurm.h"

#include <ddprun/error.h>

#include <algorithm>

namespace ddprun {
namespace {

constexpr size_t kMostInList = 65536;
constexpr size_t kLongestHost = 253;  // of a DNS name
constexpr size_t kMostDigits = 9;     // fit an int

[[noreturn]] void refuse(const Setting& list, const std::string& example) {
  throw UserError(list.text() + ": expected a list as Slurm writes it, such as " + example);
}

[[noreturn]] void refuse_hosts(const Setting& list) { refuse(list, "node[01-04],gpu7"); }

void require_few(const Setting& list, size_t nodes) {
  if (nodes > kMostInList)
    throw UserError(list.name + ": a list of more than " + std::to_string(kMostInList) + " nodes");
}

bool is_number(const std::string& text) {
  const auto is_digit = [](char letter) { return letter >= '0' && letter <= '9'; };
  return !text.empty() && text.size() <= kMostDigits && std::ranges::all_of(text, is_digit);
}

// Splits at commas outside of brackets. Leading, trailing and doubled commas give empty parts.
std::vector<std::string> split(const Setting& list, const std::string& text) {
  std::vector<std::string> parts(1);
  bool inside = false;
  for (const char letter : text) {
    if (letter == '[' || letter == ']') {
      if (inside == (letter == '[')) refuse_hosts(list);
      inside = !inside;
    }
    if (letter == ',' && !inside) {
      parts.emplace_back();
    } else {
      parts.back() += letter;
    }
  }
  if (inside) refuse_hosts(list);
  return parts;
}

// Expands "007" or "001-003", with the width of the first number.
void append_range(const Setting& list, const std::string& range, std::vector<std::string>& numbers) {
  const auto dash = range.find('-');
  const auto low = range.substr(0, dash), high = dash == std::string::npos ? low : range.substr(dash + 1);
  if (!is_number(low) || !is_number(high) || std::stoi(high) < std::stoi(low)) refuse_hosts(list);
  require_few(list, static_cast<size_t>(std::stoi(high) - std::stoi(low)) + 1);
  for (int number = std::stoi(low); number <= std::stoi(high); ++number) {
    const auto digits = std::to_string(number);
    numbers.push_back(std::string(low.size() - std::min(low.size(), digits.size()), '0') + digits);
  }
}

// Expands the inside of a bracket.
std::vector<std::string> expand_bracket(const Setting& list, const std::string& inside) {
  std::vector<std::string> numbers;
  for (const auto& range : split(list, inside)) append_range(list, range, numbers);
  return numbers;
}

// Appends every ending to every host so far.
std::vector<std::string> combine(const Setting& list, const std::vector<std::string>& hosts,
                                 const std::vector<std::string>& endings) {
  require_few(list, hosts.size() * endings.size());
  std::vector<std::string> combined;
  for (const auto& host : hosts) {
    for (const auto& ending : endings) {
      combined.push_back(host + ending);
      if (combined.back().size() > kLongestHost)
        throw UserError(list.name + ": a host's name of more than " + std::to_string(kLongestHost) + " letters");
    }
  }
  return combined;
}

// Expands one part between commas: "gpu-a[1-2]-[1-2]".
std::vector<std::string> expand_part(const Setting& list, const std::string& part) {
  if (part.empty()) refuse_hosts(list);
  std::vector<std::string> hosts{""};
  for (size_t at = 0; at < part.size();) {
    const auto open = std::min(part.find('[', at), part.size());
    hosts = combine(list, hosts, {part.substr(at, open - at)});
    if (open == part.size()) break;
    const auto close = part.find(']', open);
    hosts = combine(list, hosts, expand_bracket(list, part.substr(open + 1, close - open - 1)));
    at = close + 1;
  }
  return hosts;
}

}  // namespace

std::vector<std::string> expand_hosts(const Setting& list) {
  std::vector<std::string> hosts;
  for (const auto& part : split(list, list.value)) {
    const auto more = expand_part(list, part);
    require_few(list, hosts.size() + more.size());
    hosts.insert(hosts.end(), more.begin(), more.end());
  }
  return hosts;
}

std::vector<int> expand_task_counts(const Setting& list) {
  constexpr const char* kExample = "2(x3),1";
  std::vector<int> counts;
  for (const auto& part : split(list, list.value)) {
    const auto open = part.find("(x");
    const auto tasks = part.substr(0, open);
    auto times = std::string("1");
    if (open != std::string::npos) {
      if (!part.ends_with(')')) refuse(list, kExample);
      times = part.substr(open + 2, part.size() - open - 3);
    }
    if (!is_number(tasks) || !is_number(times)) refuse(list, kExample);
    require_few(list, counts.size() + static_cast<size_t>(std::stoi(times)));
    counts.insert(counts.end(), static_cast<size_t>(std::stoi(times)), std::stoi(tasks));
  }
  return counts;
}

std::optional<SlurmJob> find_slurm_job(const Environment& environment) {
  const auto job = environment.find({"SLURM_JOB_ID", "SLURM_JOBID"});
  if (!job) return std::nullopt;
  const auto array = environment.find("SLURM_ARRAY_JOB_ID"), task = environment.find("SLURM_ARRAY_TASK_ID");
  if (array && task) return SlurmJob{array->value + "_" + task->value, {*array, *task}};
  return SlurmJob{job->value, {*job}};
}

}  // namespace ddprun
