// SPDX-License-Identifier: MIT
// How the checks of <ddprun/testing.h> report: a Problem thrown anywhere below becomes the text that they return.
#pragma once

#include <ddprun/metric.h>

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace ddprun::check {

struct Problem : std::runtime_error {
  using std::runtime_error::runtime_error;
};

template <class... Parts>
[[noreturn]] void complain(const Parts&... parts) {
  throw Problem(c10::str(parts...));
}

// Returns the text of the exception being handled, without LibTorch's list of frames.
std::string exception_text();

// Calls a method of the plugin, such as "forward()"; what it throws becomes a Problem that names it.
template <class Call>
auto in_hook(const char* hook, Call call) -> decltype(call()) {
  try {
    return call();
  } catch (const Problem&) {
    throw;
  } catch (...) {
    complain(hook, " threw: ", exception_text());
  }
}

// Throws unless each metric of a batch is the sum, and the count, of those of its two parts.
void require_sums(const std::vector<MetricSum>& whole, const std::vector<MetricSum>& part,
                  const std::vector<MetricSum>& rest);

// Returns whether they are equal but for rounding, where numbers of order one are added.
bool near(double one, double other);

std::string problem_of(const std::function<void()>& check);

// Runs the named checks and puts each check's name before its problem.
struct NamedCheck {
  const char* name;
  std::function<std::string()> run;
};
std::vector<std::string> problems_of(const std::vector<NamedCheck>& checks);

}  // namespace ddprun::check
