// SPDX-License-Identifier: MIT
#include "cli/error_file.h"

#include "launch/atomic_file.h"
#include "launch/clock.h"

#include <nlohmann/json.hpp>

#include <cmath>

namespace ddprun {

// The layout is torch.distributed.elastic's: of all ranks' files, torchrun shows the one with the earliest time.
void write_error_file(const std::filesystem::path& file, const AttemptEnd& end, const std::string& others) noexcept
    try {
  const auto result = judge_ends(end);
  const bool own = !result.report.empty() && !(result.cause && result.cause->kind == "communication");
  const auto& report = own ? result.report : others;
  if (report.empty()) return;
  double time = wall_seconds();
  if (own) time = result.cause && result.cause->time > 0 ? result.cause->time : end.workers.front().time;
  const auto text = headline(report);
  const nlohmann::json json{
      {"message",
       {{"message", text},
        {"extraInfo",
         {{"py_callstack", report}, {"timestamp", std::to_string(static_cast<int64_t>(std::floor(time)))}}}}}};
  write_file_atomically(file, json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
} catch (...) {
  // The exit code still tells torchrun that this rank failed.
}

}  // namespace ddprun
