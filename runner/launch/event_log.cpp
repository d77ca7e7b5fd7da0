// SPDX-License-Identifier: MIT
#include "launch/event_log.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/spawn.h"

#include <ddprun/files.h>

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ddprun {
namespace {

// True if a killed process has left half a line.
bool is_torn(int fd) {
  char last = '\n';
  const auto size = ::lseek(fd, 0, SEEK_END);
  return size > 0 && ::pread(fd, &last, 1, size - 1) == 1 && last != '\n';
}

}  // namespace

// Writes in one call if the disk takes it: a worker may append at the same time.
void append_event(const std::filesystem::path& run_dir, const LaunchEvent& event) {
  using Json = nlohmann::ordered_json;
  const Json json{{"time", wall_seconds()}, {"attempt", event.attempt}, {"kind", event.kind}, {"text", event.text}};
  const auto path = run_dir / "events.jsonl";
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  const std::string line =
      (fd.open() && is_torn(fd.get()) ? "\n" : "") + json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  std::string_view left = line;
  if (!fd.open() || !write_all(fd.get(), left))
    log::warn("cannot write " + path.string() + ": " + std::strerror(errno));
}

}  // namespace ddprun
