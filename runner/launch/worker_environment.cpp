// SPDX-License-Identifier: MIT
#include "launch/worker_environment.h"

#include "base/host_name.h"
#include "base/log.h"

#include <unistd.h>

#include <cstdio>
#include <map>

namespace ddprun {
namespace fs = std::filesystem;
namespace {

std::string precise(double seconds_since_1970) {
  char text[64];
  std::snprintf(text, sizeof text, "%.6f", seconds_since_1970);
  return text;
}

int or_all(const LaunchPlan& plan, int size) { return size > 0 ? size : plan.workers; }

}  // namespace

std::vector<std::string> worker_environment(const LaunchPlan& plan, int index, const std::string& store) {
  std::map<std::string, std::string> values;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (const auto equals = text.find('='); equals != std::string::npos) {
      values[text.substr(0, equals)] = text.substr(equals + 1);
    }
  }
  for (const auto& [name, value] : plan.environment) values[name] = value;
  const auto or_workers = [&plan](int size) { return std::to_string(or_all(plan, size)); };
  values["RANK"] = std::to_string(plan.first_rank + index);
  values["LOCAL_RANK"] = std::to_string(plan.local_rank + index);
  values["WORLD_SIZE"] = or_workers(plan.world_size);
  values["LOCAL_WORLD_SIZE"] = or_workers(plan.local_world_size);
  values["DDPRUN_RUN_DIR"] = fs::absolute(plan.run_dir).string();
  values["DDPRUN_ATTEMPT"] = std::to_string(plan.attempt);
  values["DDPRUN_STORE"] = store;
  values["DDPRUN_STARTED_AT"] = precise(plan.started_at);
  std::vector<std::string> result;
  for (const auto& [name, value] : values) result.push_back(name + "=" + value);
  return result;
}

std::string place_text(const LaunchPlan& plan, int index) {
  return log::text("attempt ", plan.attempt, ": rank ", plan.first_rank + index, " of ", or_all(plan, plan.world_size),
                   ", local rank ", plan.local_rank + index, " of ", or_all(plan, plan.local_world_size), " on ",
                   host_name(), ", ", plan.device);
}

}  // namespace ddprun
