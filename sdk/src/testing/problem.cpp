// SPDX-License-Identifier: MIT
#include "problem.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cmath>

namespace ddprun::check {

std::string exception_text() try { throw; } catch (const c10::Error& error) {
  return error.what_without_backtrace();
} catch (const std::exception& error) {
  return error.what();
} catch (...) {
  return "something that is not a std::exception";
}

bool near(double one, double other) { return std::abs(one - other) <= 1e-5 * std::max(1.0, std::abs(one)); }

namespace {

// Returns how many samples, or parts of them, it is the mean over.
int64_t count_of(const MetricSum& metric) {
  return metric.counted.defined() ? metric.counted.item<int64_t>() : metric.count;
}

// As the runner reads it: what nothing counts for may be NaN.
double sum_of(const MetricSum& metric) { return count_of(metric) > 0 ? metric.sum.item<double>() : 0; }

}  // namespace

void require_sums(const std::vector<MetricSum>& whole, const std::vector<MetricSum>& part,
                  const std::vector<MetricSum>& rest) {
  for (size_t i = 0; i < whole.size(); ++i) {
    const auto sum = sum_of(part.at(i)) + sum_of(rest.at(i));
    const auto count = count_of(part.at(i)) + count_of(rest.at(i));
    if (count_of(whole[i]) == count && near(sum_of(whole[i]), sum)) continue;
    complain("metric ", whole[i].name, " is ", sum_of(whole[i]), " of ", count_of(whole[i]), " for a batch, but ", sum,
             " of ", count, " for its two parts: give a sum over the samples, and their count");
  }
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
