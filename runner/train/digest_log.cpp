// SPDX-License-Identifier: MIT
#include "train/digest_log.h"

#include "base/log.h"

#include <ddprun/error.h>

#include <nlohmann/json.hpp>

#include <array>
#include <cstdio>
#include <fstream>

namespace ddprun {
namespace {

constexpr auto kFile = "digests.jsonl";

std::string hex(uint64_t value) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(value));
  return text.data();
}

}  // namespace

DigestLog::DigestLog(std::filesystem::path run_dir) : run_dir_(std::move(run_dir)) {
  std::error_code error;
  if (std::filesystem::is_directory(run_dir_, error)) held_.emplace(run_dir_);
}

void DigestLog::add(int64_t step, uint64_t digest) try {
  if (failed_ || step == last_step_ || !held_ || !held_->is_there()) return;
  if (!file_.is_open()) file_.open(run_dir_ / kFile);
  file_.append_line(nlohmann::ordered_json{{"step", step}, {"digest", hex(digest)}}.dump());
  last_step_ = step;
} catch (const UserError& error) {
  failed_ = true;
  log::warn(std::string(error.what()) + "; `ddprun replay` cannot compare what comes now");
}

std::map<int64_t, uint64_t> read_digests(const std::filesystem::path& run_dir) {
  std::map<int64_t, uint64_t> digests;
  const auto path = run_dir / kFile;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return digests;
  std::ifstream file(path);
  if (!file) throw UserError(path.string() + " cannot be read");
  for (std::string line; std::getline(file, line);) try {
      const auto row = nlohmann::json::parse(line);
      const auto step = row.at("step").get<int64_t>();
      digests.erase(digests.lower_bound(step), digests.end());  // of an attempt before
      digests[step] = std::stoull(row.at("digest").get<std::string>(), nullptr, 16);
    } catch (const std::exception&) {
      continue;
    }
  return digests;
}

}  // namespace ddprun
