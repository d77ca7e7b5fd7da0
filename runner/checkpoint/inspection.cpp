// SPDX-License-Identifier: MIT
#include "checkpoint/inspection.h"

#include "base/files_below.h"
#include "checkpoint/checkpoint.h"
#include "strict_json.h"

#include <ddprun/digest.h>
#include <ddprun/error.h>
#include <ddprun/safetensors.h>

#include <sys/stat.h>

#include <algorithm>
#include <functional>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr auto kFreshManifest = "manifest.json.tmp";  // exists for a moment when a checkpoint becomes the best

// Returns the names in a folder, sorted; none if it is gone.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename().string());
  if (error && error != std::errc::no_such_file_or_directory)
    throw UserError(folder.string() + ": cannot read: " + error.message());
  std::ranges::sort(names);
  return names;
}

// Returns an error's text without the leading file name, which is shown beside it.
std::string without_name(std::string text, const fs::path& file) {
  const auto front = file.string() + ": ";
  return text.starts_with(front) ? text.substr(front.size()) : text;
}

std::optional<FileFlaw> flaw_of(const fs::path& file, const char* kind, const std::function<void()>& read) {
  try {
    read();
    return std::nullopt;
  } catch (const std::exception& error) {
    return FileFlaw{file.filename().string(), kind, without_name(error.what(), file)};
  }
}

void read_content(const fs::path& file) {
  if (file.extension() == ".safetensors") {
    read_safetensors(file);
  } else {
    parse_strict_json(read_below(file.parent_path(), file.filename()));
  }
}

std::optional<FileFlaw> flaw_against(const fs::path& file, const FileDigest& stated) {
  const auto name = file.filename().string();
  std::error_code error;
  if (!fs::exists(fs::symlink_status(file, error))) return FileFlaw{name, "missing", "the manifest lists it"};
  FileDigest found;
  const auto read = [&] {
    found.size = size_below(file.parent_path(), name);
    if (found.size == stated.size) found = digest_of(file);
  };
  if (auto flaw = flaw_of(file, "unreadable", read)) return flaw;
  if (found != stated) {
    const auto kind = found.size < stated.size ? "torn" : found.size > stated.size ? "too long" : "flipped";
    return FileFlaw{name, kind, contradiction(found, stated)};
  }
  return flaw_of(file, "unreadable", [&] { read_content(file); });
}

void measure(CheckpointReport& report) {
  for (const auto& name : names_in(report.path)) {
    struct stat status {};
    if (::lstat((report.path / name).c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    report.bytes += static_cast<uint64_t>(status.st_size);
    if (name == kStateFile) report.saved = status.st_mtime;  // the manifest is rewritten when it becomes the best
  }
}

void compare(CheckpointReport& report, const Manifest& manifest) {
  for (const auto& [name, digest] : manifest.files) {
    if (auto flaw = flaw_against(report.path / name, digest)) report.flaws.push_back(*flaw);
  }
  for (const auto& name : names_in(report.path)) {
    if (manifest.files.contains(name) || name == kManifestFile || name == kFreshManifest) continue;
    report.flaws.push_back({name, "unknown", "the manifest does not list it"});
  }
}

void look_at_link(const fs::path& folder, const std::string& name, std::string& target, RunReport& report) {
  const auto link = folder / name;
  std::error_code error;
  if (!fs::exists(fs::symlink_status(link, error))) return;
  // Tries twice: between reading and looking, a running job may have repointed it and removed its target.
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto to = fs::read_symlink(link, error);
    target = error ? name : to.string();  // its own name, where it is not a link, but somebody's copy
    if (fs::exists(link, error) && !to.has_parent_path()) return;
  }
  report.dangling.push_back(name);
}

}  // namespace

bool RunReport::good() const { return dangling.empty() && std::ranges::all_of(checkpoints, &CheckpointReport::good); }

CheckpointReport inspect_checkpoint(const fs::path& folder) {
  CheckpointReport report{.name = folder.filename().string(), .path = folder};
  const auto named_step = step_of_name(report.name);
  report.step = named_step.value_or(-1);
  measure(report);
  const auto file = folder / kManifestFile;
  if (auto flaw = flaw_of(folder, "link", [&] { require_no_link(folder); })) {
    report.flaws.push_back(*flaw);
    return report;
  }
  std::optional<Manifest> manifest;
  if (auto flaw = flaw_of(file, "damaged", [&] { manifest = read_manifest(folder); })) {
    std::error_code error;
    if (!fs::exists(file, error)) *flaw = {kManifestFile, "missing", "a folder without it is not a checkpoint"};
    report.flaws.push_back(*flaw);
  } else {
    report.world_size = manifest->world_size;
    report.left_out = manifest->left_out;
    if (named_step && *named_step != manifest->step)
      report.flaws.push_back({kManifestFile, "damaged", "it says step " + std::to_string(manifest->step)});
    report.step = manifest->step;
    compare(report, *manifest);
  }
  std::error_code error;
  report.removed = !fs::exists(folder, error);
  if (report.removed) report.flaws.clear();
  return report;
}

RunReport inspect_run(const fs::path& run_dir) {
  RunReport report;
  const auto folder = checkpoints_folder(run_dir);
  for (const auto& name : names_in(folder)) {
    const fs::path path(name);
    const bool leftover = path.extension() == ".tmp" || path.extension() == ".broken";
    if (leftover && step_of_name(path.stem().string())) report.leftovers.push_back(name);
  }
  for (const auto step : checkpoint_steps(run_dir))
    report.checkpoints.push_back(inspect_checkpoint(folder / checkpoint_name(step)));
  look_at_link(folder, "last", report.last, report);
  look_at_link(folder, "best", report.best, report);
  return report;
}

}  // namespace ddprun
