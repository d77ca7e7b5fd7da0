// SPDX-License-Identifier: MIT
#include "refusals.h"

#include "warning.h"

#include <fstream>

namespace ddprun::mlflow {
namespace {

constexpr int kManyTimes = 3;
constexpr size_t kMostWarnings = 10;

}  // namespace

void Refusals::set_aside(const std::string& name, const Json& item, const std::string& reason) {
  std::ofstream(file_, std::ios::app) << text_of({{"item", item}, {"reason", reason}}) + "\n" << std::flush;
  if (++count_[name] > 1 || count_.size() > kMostWarnings) return;
  warn("the server refuses " + name + ": " + reason + "; it is kept in " + file_.string() + ", the rest goes on" +
       (count_.size() == kMostWarnings ? "; further ones are only noted there" : ""));
}

bool Refusals::hopeless(const std::string& name) const {
  const auto found = count_.find(name);
  return found != count_.end() && found->second >= kManyTimes;
}

}  // namespace ddprun::mlflow
