// SPDX-License-Identifier: MIT
// An experiment with overrides: lines of them up to a zero, then the file.
#include "config/experiment_reader.h"
#include "config/yaml_reader.h"
#include "fuzz/fuzz_target.h"

#include <cstdlib>
#include <sstream>
#include <stdexcept>

namespace ddprun {
namespace {

// What was read and written is read as the same.
void require_round_trip(std::string_view text) {
  Problems problems;
  const auto value = parse_yaml(text, "input", problems);
  if (!value || !problems.empty()) return;
  const auto written = to_yaml(*value, true);
  const auto again = parse_yaml(written, "written", problems);
  if (!again || !problems.empty() || to_yaml(*again, false) != to_yaml(*value, false))
    throw std::logic_error("not what was written: " + written + (problems.empty() ? "" : problems.front()));
}

}  // namespace

void feed_yaml(std::string_view bytes) {
  const auto end = std::min(bytes.find('\0'), bytes.size());
  const auto file = bytes.substr(std::min(end + 1, bytes.size()));
  require_round_trip(file);
  ComposeInput input{.experiment = fuzz::as_file(file), .search_path = {DDPRUN_CONFIGS}};
  std::istringstream lines{std::string(bytes.substr(0, end))};
  for (std::string line; std::getline(lines, line);) input.overrides.push_back(line);
  load_experiment(input);
}

}  // namespace ddprun

DDPRUN_FUZZ_TARGET(yaml, feed_yaml)
