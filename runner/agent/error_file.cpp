// SPDX-License-Identifier: MIT
#include "agent/error_file.h"

#include "base/clock.h"
#include "cluster/setting.h"

#include <ddprun/files.h>

#include <nlohmann/json.hpp>

#include <cmath>

namespace ddprun {
namespace {

// Writes the file in torch.distributed.elastic's format: torchrun shows the one with the earliest time of all ranks.
void write(const std::filesystem::path& file, const std::string& report, double time) {
  const nlohmann::json json{
      {"message",
       {{"message", headline(report)},
        {"extraInfo",
         {{"py_callstack", report}, {"timestamp", std::to_string(static_cast<int64_t>(std::floor(time)))}}}}}};
  replace_file(file, json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace

void write_error_file(const std::filesystem::path& file, const LaunchResult& own, const std::string& others) noexcept
    try {
  const bool failed = !own.report.empty() && !(own.cause && own.cause->kind == FailureKind::kCommunication);
  const auto& report = failed ? own.report : others;
  if (report.empty() || file.empty()) return;
  write(file, report, failed && own.failed_at > 0 ? wall_seconds_at(own.failed_at) : wall_seconds());
} catch (...) {
  // The exit code still shows torchrun that this rank failed.
}

bool inform_torchrun(const std::string& problem) noexcept try {
  const auto file = process_environment().find("TORCHELASTIC_ERROR_FILE");
  if (!file) return false;
  write(file->value, problem, wall_seconds());
  return true;
} catch (...) {
  return false;
}

bool is_first_of_its_node(const Environment& environment) {
  for (const char* name : {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}) {
    if (const auto local_rank = environment.find(name)) return local_rank->value == "0";
  }
  return true;
}

bool is_first_of_its_node() noexcept try { return is_first_of_its_node(process_environment()); } catch (...) {
  return true;
}

}  // namespace ddprun
