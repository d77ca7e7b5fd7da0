// SPDX-License-Identifier: MIT
#include "launch/event_log.h"

#include "base/clock.h"
#include "base/log.h"

#include <ddprun/error.h>
#include <ddprun/files.h>

#include <nlohmann/json.hpp>

#include <cerrno>
#include <system_error>

namespace ddprun {

// Writes in one call if the disk takes it: a worker may append at the same time.
void append_event(const std::filesystem::path& run_dir, const LaunchEvent& event) try {
  using Json = nlohmann::ordered_json;
  const Json json{{"time", wall_seconds()}, {"attempt", event.attempt}, {"kind", event.kind}, {"text", event.text}};
  std::error_code error;
  if (!std::filesystem::is_directory(run_dir, error)) throw_file_error("write", run_dir / "events.jsonl", ENOENT);
  RecordFile file;
  file.open(run_dir / "events.jsonl");
  file.append_line(json.dump(-1, ' ', false, Json::error_handler_t::replace));
} catch (const UserError& error) {
  log::warn(error.what());
}

}  // namespace ddprun
