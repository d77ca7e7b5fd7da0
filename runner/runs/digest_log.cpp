// SPDX-License-Identifier: MIT
#include "runs/digest_log.h"

#include "base/digest_text.h"
#include "base/log.h"

#include <ddprun/digest.h>
#include <ddprun/error.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fstream>
#include <utility>

namespace ddprun {
namespace {

constexpr auto kFile = "digests.jsonl";
constexpr auto kBits = "bits";  // "digest" in earlier versions, which made others of the same network
constexpr size_t kDigits = 16;

}  // namespace

int64_t attempt_in(const std::filesystem::path& environment) {
  std::ifstream file(environment);
  const auto json = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  const auto attempt = json.is_object() ? json.find("attempt") : json.end();
  return attempt != json.end() && attempt->is_number_integer() ? attempt->get<int64_t>() : -1;
}

std::string experiment_digest(const std::filesystem::path& config) {
  std::ifstream file(config);
  Sha256 sha;
  for (std::string line; std::getline(file, line);) {
    line.resize(std::min(line.size(), line.find(" #")));
    line.resize(line.find_last_not_of(' ') + 1);
    line += "\n";
    sha.update(line.data(), line.size());
  }
  return sha.hex().substr(0, kDigits);
}

DigestLog::DigestLog(std::filesystem::path run_dir, Makers makers)
    : run_dir_(std::move(run_dir)), makers_(std::move(makers)) {
  std::error_code error;
  if (std::filesystem::is_directory(run_dir_, error)) held_.emplace(run_dir_);
}

void DigestLog::add(int64_t step, uint64_t digest) try {
  if (failed_ || step == last_step_ || !held_ || !held_->is_there()) return;
  nlohmann::ordered_json row{{"step", step}, {kBits, digest_text(digest)}};
  if (!file_.is_open()) {
    file_.open(run_dir_ / kFile);
    row["workers"] = makers_.workers;
    row["machine"] = makers_.machine;
    row["experiment"] = experiment_digest(run_dir_ / "config.yaml");
    if (const auto attempt = attempt_in(run_dir_ / "environment.json"); attempt >= 0) row["attempt"] = attempt;
  }
  file_.append_line(row.dump());
  last_step_ = step;
} catch (const UserError& error) {
  failed_ = true;
  log::warn(std::string(error.what()) + "; `ddprun replay` and `ddprun diff` cannot compare what comes now");
}

std::map<int64_t, RecordedDigest> read_digests(const std::filesystem::path& run_dir) {
  std::map<int64_t, RecordedDigest> digests;
  const auto path = run_dir / kFile;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return digests;
  std::ifstream file(path);
  if (!file) throw UserError(path.string() + " cannot be read");
  Makers makers;
  for (std::string line; std::getline(file, line);) try {
      const auto row = nlohmann::json::parse(line);
      const auto step = row.at("step").get<int64_t>();
      const auto digest = digest_from(row.at(kBits).get<std::string>());
      if (row.contains("workers"))
        makers = {row["workers"].get<int64_t>(), row.value("machine", ""), row.value("experiment", ""),
                  row.value("attempt", int64_t{-1})};
      digests.erase(digests.lower_bound(step), digests.end());  // of an attempt before
      digests[step] = {digest, makers};
    } catch (const std::exception&) {
      continue;
    }
  return digests;
}

}  // namespace ddprun
