// SPDX-License-Identifier: MIT
#include "problem.h"

namespace ddprun::check {

std::string exception_text() try { throw; } catch (const c10::Error& error) {
  return error.what_without_backtrace();
} catch (const std::exception& error) {
  return error.what();
} catch (...) {
  return "something that is not a std::exception";
}

int64_t count_of(const MetricSum& metric) {
  return metric.counted.defined() ? metric.counted.item<int64_t>() : metric.count;
}

std::string problem_of(const std::function<void()>& check) try {
  check();
  return "";
} catch (const Problem& problem) {
  return problem.what();
} catch (...) {
  return "the check could not continue: " + exception_text();
}

std::vector<std::string> problems_of(const std::vector<NamedCheck>& checks) {
  std::vector<std::string> problems;
  for (const auto& check : checks) {
    const auto problem = check.run();
    if (!problem.empty()) problems.push_back(std::string(check.name) + ": " + problem);
  }
  return problems;
}

}  // namespace ddprun::check
