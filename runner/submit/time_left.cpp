// SPDX-License-Identifier: MIT
#include "submit/time_left.h"

#include "base/log.h"
#include "base/program.h"
#include "cluster/slurm_job.h"

#include <regex>
#include <string>

namespace ddprun {

std::optional<double> slurm_time_left(const Environment& environment) try {
  const auto job = find_slurm_job(environment);
  if (!job || !has_program("squeue")) return std::nullopt;
  const auto shown = run_program({"squeue", "--noheader", "--jobs=" + job->name, "--format=%L"}, {.seconds = 30});
  return shown.exit_code == 0 ? parse_time_left(shown.output) : std::nullopt;
} catch (const std::exception& error) {
  log::warn(std::string("cannot ask Slurm how long the job may run: ") + error.what());
  return std::nullopt;
}

std::optional<double> parse_time_left(std::string_view text) {
  static const std::regex form(R"(\s*(?:(?:(\d{1,5})-)?(\d{1,3}):)?(\d{1,2}):(\d{2})\s*)");
  std::match_results<std::string_view::const_iterator> parts;
  if (!std::regex_match(text.begin(), text.end(), parts, form)) return std::nullopt;
  const auto number = [&parts](int part) { return parts[part].matched ? std::stod(parts[part].str()) : 0.0; };
  return ((number(1) * 24 + number(2)) * 60 + number(3)) * 60 + number(4);
}

}  // namespace ddprun
