// SPDX-License-Identifier: MIT
#include "transfer.h"

#include <ddprun/download.h>
#include <ddprun/error.h>
#include <ddprun/files.h>
#include <ddprun/gzip_file.h>

#include <chrono>
#include <system_error>
#include <thread>

namespace ddprun {
namespace {

using Path = std::filesystem::path;
using Kind = TransferResult::Kind;

std::string sha256_of_content(const Path& path, int64_t most_bytes) try {
  if (!is_gzip(path)) return "";
  GzipFile file(path);
  Sha256 sum;
  std::vector<uint8_t> chunk(1 << 16);
  for (int64_t done = 0; done <= most_bytes;) {
    const auto got = file.read(chunk);
    if (got == 0) return sum.hex();
    sum.update(chunk.data(), got);
    done += static_cast<int64_t>(got);
  }
  return "";
} catch (const UserError&) {  // damaged, so it is not the content we look for
  return "";
}

// Returns what is wrong with the bytes, or empty.
std::string checksum_problem(const RemoteFile& file, const Path& part, const DownloadLimits& limits) {
  const auto found = sha256_file(part);
  if (found == file.sha256) return "";
  if (!file.content_sha256.empty() && sha256_of_content(part, limits.most_bytes) == file.content_sha256) return "";
  return "wrong checksum: sha256 " + found + " (" + std::to_string(std::filesystem::file_size(part)) +
         " bytes), expected " + file.sha256;
}

// Leaves the whole, verified file in `part`, or returns why not.
std::string try_address(const RemoteFile& file, const std::string& url, const Path& part, const Progress& progress,
                        const DownloadLimits& limits) {
  std::string problem;
  for (int attempt = 0; attempt < limits.attempts; ++attempt) {
    if (attempt > 0) std::this_thread::sleep_for(std::chrono::milliseconds(limits.pause_milliseconds));
    const bool resumed = std::filesystem::exists(part) && std::filesystem::file_size(part) > 0;
    const auto result = transfer(url, part, limits, [&](int64_t done, int64_t total) {
      progress("downloading " + file.name, done, total > 0 ? total : file.bytes);
    });
    problem = result.problem;
    if (result.kind == Kind::kFailed) return problem;
    if (result.kind == Kind::kCutOff) continue;
    if (result.kind == Kind::kComplete) problem = checksum_problem(file, part, limits);
    if (problem.empty()) return "";
    std::filesystem::remove(part);
    if (!resumed) return problem;  // otherwise the earlier bytes may have been wrong: retry once from the start
  }
  return problem;
}

}  // namespace

std::vector<std::string> download(const RemoteFile& file, const std::vector<std::string>& mirrors, const Path& folder,
                                  const Progress& progress, const DownloadLimits& limits) {
  const Path part = folder / (file.name + ".part");
  std::vector<std::string> problems;
  for (const auto& mirror : mirrors) {
    const auto url = address(mirror, file.name);
    const auto problem = try_address(file, url, part, progress, limits);
    if (problem.empty()) {
      sync_path(part);
      rename_durably(part, folder / file.name);
      return {};
    }
    std::error_code absent;
    if (std::filesystem::is_empty(part, absent)) std::filesystem::remove(part);
    problems.push_back(url + ": " + problem);
    progress(problems.back(), 0, 0);
  }
  return problems;
}

}  // namespace ddprun
