// SPDX-License-Identifier: MIT
#include "report/checkpoint_list.h"

#include <sys/stat.h>

#include <algorithm>
#include <charconv>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step_";

bool read_step(std::string_view name, int64_t& step) {
  if (!name.starts_with(kPrefix)) return false;
  name.remove_prefix(kPrefix.size());
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
  return error == std::errc() && end == name.data() + name.size();  // rejects step_00000100.tmp
}

uint64_t size_of_files(const fs::path& folder) {
  uint64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const auto size = entry.is_regular_file(error) ? entry.file_size(error) : 0;
    if (!error) bytes += size;
  }
  return bytes;
}

double time_saved(const fs::path& folder) {
  struct stat status {};
  const auto manifest = folder / "manifest.json";
  return ::stat(manifest.c_str(), &status) == 0 ? static_cast<double>(status.st_mtime) : 0;
}

}  // namespace

std::vector<ListedCheckpoint> list_checkpoints(const fs::path& run_dir) {
  std::vector<ListedCheckpoint> checkpoints;
  std::error_code error;
  const auto folder = run_dir / "checkpoints";
  const auto best = fs::read_symlink(folder / "best", error), last = fs::read_symlink(folder / "last", error);
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    ListedCheckpoint checkpoint{.name = entry.path().filename().string()};
    if (!read_step(checkpoint.name, checkpoint.step) || !entry.is_directory(error)) continue;
    checkpoint.bytes = size_of_files(entry.path());
    checkpoint.saved = time_saved(entry.path());
    checkpoint.best = best == checkpoint.name;
    checkpoint.last = last == checkpoint.name;
    checkpoints.push_back(std::move(checkpoint));
  }
  std::ranges::sort(checkpoints, {}, &ListedCheckpoint::step);
  return checkpoints;
}

}  // namespace ddprun
