// SPDX-License-Identifier: MIT
#include "checkpoint/checkpoint.h"

#include "base/digest_text.h"
#include "base/files_below.h"
#include "base/log.h"
#include "strict_json.h"

#include <ddprun/error.h>
#include <ddprun/file_error.h>
#include <ddprun/files.h>
#include <ddprun/safetensors.h>
#include <ddprun/version.h>

#include <torch/version.h>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>

namespace ddprun {
namespace {

constexpr std::string_view kStepPrefix = "step_";

void verify_file(const std::filesystem::path& folder, const std::string& name, const FileDigest& stated) {
  const auto file = folder / name;
  const auto size = size_below(folder, name);
  const auto found = size == stated.size ? digest_of(file) : FileDigest{.size = size};
  if (found != stated) throw UserError(file.string() + ": " + contradiction(found, stated));
}

CheckpointInfo info_of(const std::filesystem::path& path, const Manifest& manifest) {
  return {.path = path,
          .step = manifest.step,
          .world_size = manifest.world_size,
          .ddprun = manifest.ddprun,
          .torch = manifest.torch,
          .left_out = manifest.left_out};
}

// Returns null if somebody else holds the lock. The last copy of the result releases it.
std::shared_ptr<const void> lock(const std::filesystem::path& folder, int how) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::shared_ptr<const void> opened(&kStepPrefix, [fd](const void*) { ::close(fd); });
  return lock_descriptor(fd, how | LOCK_NB) == LockState::kTaken ? nullptr : opened;
}

std::filesystem::path real_folder(const std::filesystem::path& path) {
  std::error_code error;
  auto folder = std::filesystem::canonical(path, error);
  if (error) throw UserError(path.string() + ": not a checkpoint: " + error.message());
  return folder;
}

void verify_files(const std::filesystem::path& folder, const Manifest& manifest) {
  const auto named_step = step_of_name(folder.filename().string());
  if (named_step && *named_step != manifest.step) {
    throw UserError(folder.string() + ": its manifest says step " + std::to_string(manifest.step));
  }
  for (const auto& [name, digest] : manifest.files) verify_file(folder, name, digest);
}

// Verifies a folder that is locked. What the disk fails to give at first may come at a second try.
CheckpointInfo verify_locked(const std::filesystem::path& folder, std::shared_ptr<const void> in_use) {
  Manifest manifest;
  const auto once = [&] { verify_files(folder, manifest = read_manifest(folder)); };
  try {
    once();
  } catch (const FileError& error) {
    if (!may_pass(error.error())) throw;
    once();
  }
  auto info = info_of(folder, manifest);
  info.in_use = std::move(in_use);
  return info;
}

}  // namespace

std::filesystem::path checkpoints_folder(const std::filesystem::path& run_dir) { return run_dir / "checkpoints"; }

std::string checkpoint_name(int64_t step) {
  auto digits = std::to_string(step);
  if (digits.size() < 8) digits.insert(0, 8 - digits.size(), '0');
  return std::string(kStepPrefix) + digits;
}

std::optional<int64_t> step_of_name(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return std::nullopt;
  int64_t step = -1;
  std::from_chars(name.data() + kStepPrefix.size(), name.data() + name.size(), step);
  return step >= 0 && checkpoint_name(step) == name ? std::optional(step) : std::nullopt;
}

std::vector<int64_t> checkpoint_steps(const std::filesystem::path& run_dir) {
  const auto folder = checkpoints_folder(run_dir);
  std::vector<int64_t> steps;
  try {
    if (!std::filesystem::exists(folder)) return steps;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const auto step = step_of_name(entry.path().filename().string());
      if (step && entry.is_directory()) steps.push_back(*step);
    }
  } catch (const std::filesystem::filesystem_error& error) {
    throw UserError(folder.string() + ": cannot read: " + error.code().message());
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::shared_ptr<const void> lock_for_reading(const std::filesystem::path& folder) {
  constexpr auto kWarnAfter = std::chrono::seconds(1), kGiveUpAfter = std::chrono::seconds(60);
  const auto begin = std::chrono::steady_clock::now();
  for (bool warned = false;;) {
    if (auto locked = lock(folder, LOCK_SH)) return locked;
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (waited > kGiveUpAfter)
      throw UserError(log::text(folder.string(), ": another process has had it locked for ", kGiveUpAfter.count(),
                                " s; end that process (fuser names it), or use another checkpoint"));
    if (waited > kWarnAfter && !std::exchange(warned, true))
      log::info("waiting for " + folder.string() + ", which another process has locked");
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

std::shared_ptr<const void> lock_for_removal(const std::filesystem::path& folder) { return lock(folder, LOCK_EX); }

CheckpointInfo verify_checkpoint(const std::filesystem::path& path) {
  const auto folder = real_folder(path);
  return verify_locked(folder, lock_for_reading(folder));
}

void require_no_link(const std::filesystem::path& folder) {
  std::error_code error;
  if (std::filesystem::is_symlink(folder, error))
    throw UserError(folder.string() + ": is a link, and a run's checkpoints lie in its folder");
}

CheckpointInfo read_checkpoint_info(const std::filesystem::path& path) { return info_of(path, read_manifest(path)); }

std::optional<CheckpointInfo> newest_checkpoint(const std::filesystem::path& run_dir,
                                                std::vector<CheckpointFlaw>& flaws, int64_t last_step) {
  auto steps = checkpoint_steps(run_dir);
  std::erase_if(steps, [last_step](int64_t step) { return step > last_step; });
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    const auto path = checkpoints_folder(run_dir) / checkpoint_name(*step);
    auto in_use = lock_for_reading(path);  // a lock that another process keeps is no flaw
    try {
      require_no_link(path);
      return verify_locked(real_folder(path), std::move(in_use));
    } catch (const UserError& error) {
      flaws.push_back({.path = path, .problem = error.what()});
    }
  }
  return std::nullopt;
}

TensorDict inference_weights(const CheckpointInfo& info) {
  auto weights = read_safetensors(info.path / kModelFile);
  if (!read_manifest(info.path).files.contains(kAverageFile)) return weights;
  for (auto& [name, average] : read_safetensors(info.path / kAverageFile)) weights[name] = average;
  return weights;
}

namespace {

Checkpoint read_once(const CheckpointInfo& info) {
  Checkpoint checkpoint{.step = info.step, .left_out = info.left_out};
  checkpoint.model = read_safetensors(info.path / kModelFile);
  if (read_manifest(info.path).files.contains(kAverageFile)) {
    checkpoint.average = read_safetensors(info.path / kAverageFile);
  }

  checkpoint.optimizer = read_safetensors(info.path / kOptimizerFile);
  checkpoint.progress = read_below(info.path, kStateFile);
  for (int64_t rank = 0; rank < info.world_size; ++rank)
    checkpoint.ranks.push_back(read_safetensors(info.path / rank_file(rank)));
  return checkpoint;
}

}  // namespace

// The files were verified: what cannot be read now may come at a second try.
Checkpoint read_checkpoint(const CheckpointInfo& info) try { return read_once(info); } catch (const UserError&) {
  return read_once(info);
}

namespace {

using nlohmann::json;

constexpr int64_t kFormat = 2;       // the newest that is read
constexpr int64_t kWholeFormat = 1;  // of checkpoints that leave nothing out, which earlier versions read
constexpr auto kOwnDigest = "manifest_sha256";
constexpr uint64_t kLargestManifest = 64 << 20;  // a rank needs 0.1 kB

std::string sha256_of(const std::string& text) {
  Sha256 sha;
  sha.update(text.data(), text.size());
  return sha.hex();
}

json to_json(const LeftOutWeights& left_out) {
  return {{"digest", digest_text(left_out.digest)}, {"parameters", left_out.tensors}, {"bytes", left_out.bytes}};
}

LeftOutWeights left_out_from(const json& content) {
  LeftOutWeights left_out{.digest = digest_from(content.at("digest").get<std::string>()),
                          .tensors = static_cast<int64_t>(to_count(content.at("parameters"))),
                          .bytes = static_cast<int64_t>(to_count(content.at("bytes")))};
  if (left_out.tensors < 1 || left_out.bytes < 0)
    throw std::runtime_error("what it says of the weights that it leaves out is out of range");
  return left_out;
}

json to_json(const Manifest& manifest) {
  json files = json::object();
  for (const auto& [name, digest] : manifest.files) files[name] = {{"size", digest.size}, {"sha256", digest.sha256}};
  json content = {{"format", manifest.left_out ? kFormat : kWholeFormat},
                  {"step", manifest.step},
                  {"world_size", manifest.world_size},
                  {"best", manifest.best},
                  {"ddprun", DDPRUN_VERSION},
                  {"torch", TORCH_VERSION},
                  {"files", std::move(files)}};
  if (manifest.left_out) content["left_out"] = to_json(*manifest.left_out);
  content[kOwnDigest] = sha256_of(content.dump());
  return content;
}

void check_format(json& content) {
  const auto format = to_count(content.at("format"));
  if (format > kFormat) {
    throw std::runtime_error(
        "its format is " + std::to_string(format) + ", of ddprun " + content.value("ddprun", "(unknown)") +
        "; this is ddprun " DDPRUN_VERSION ", which reads up to " + std::to_string(kFormat) + "; use a newer ddprun");
  }
  const auto stated = content.at(kOwnDigest).get<std::string>();
  content.erase(kOwnDigest);
  if (sha256_of(content.dump()) != stated) throw std::runtime_error("its content does not match its own SHA-256");
}

// The names are known beforehand, so a manifest can neither name a file elsewhere nor leave one out.
void check_files(const Manifest& manifest) {
  std::set<std::string> expected = {kModelFile, kOptimizerFile, kStateFile};
  if (manifest.files.contains(kAverageFile)) expected.insert(kAverageFile);
  if (manifest.world_size < 1) throw std::runtime_error("its world size is out of range");
  if (static_cast<size_t>(manifest.world_size) + expected.size() != manifest.files.size()) {
    throw std::runtime_error("it lists " + std::to_string(manifest.files.size()) + " files for a world size of " +
                             std::to_string(manifest.world_size));
  }
  for (int64_t rank = 0; rank < manifest.world_size; ++rank) expected.insert(rank_file(rank));
  for (const auto& name : expected) {
    if (!manifest.files.contains(name)) throw std::runtime_error("it does not list " + name);
  }
}

Manifest parse(const std::string& text) {
  auto content = parse_strict_json(text);
  check_format(content);
  Manifest manifest{.step = static_cast<int64_t>(to_count(content.at("step"))),
                    .world_size = static_cast<int64_t>(to_count(content.at("world_size"))),
                    .ddprun = content.at("ddprun").get<std::string>(),
                    .torch = content.at("torch").get<std::string>(),
                    .best = content.at("best").get<bool>()};
  for (const auto& [name, digest] : content.at("files").items()) {
    manifest.files[name] = {to_count(digest.at("size")), digest.at("sha256").get<std::string>()};
  }
  if (content.contains("left_out")) manifest.left_out = left_out_from(content.at("left_out"));
  check_files(manifest);
  return manifest;
}

}  // namespace

std::string rank_file(int64_t rank) { return "rank_" + std::to_string(rank) + ".safetensors"; }

std::string contradiction(const FileDigest& found, const FileDigest& stated) {
  const auto beginning = [](const FileDigest& digest) { return digest.sha256.substr(0, 12) + "..."; };
  if (found.size == stated.size)
    return "its SHA-256 is " + beginning(found) + ", the manifest says " + beginning(stated);
  return "it has " + std::to_string(found.size) + " bytes, the manifest says " + std::to_string(stated.size);
}

void write_manifest(const std::filesystem::path& folder, const Manifest& manifest) {
  const auto text = to_json(manifest).dump(2) + "\n";
  const auto fresh = folder / (std::string(kManifestFile) + ".tmp");
  DurableFile out(fresh);
  out.write(text.data(), text.size());
  out.finish();
  rename_durably(fresh, folder / kManifestFile);
}

Manifest read_manifest(const std::filesystem::path& folder) {
  const auto file = folder / kManifestFile;
  try {
    size_below(folder, kManifestFile);  // throws if there is none
    return parse(read_below(folder, kManifestFile, kLargestManifest));
  } catch (const UserError&) {
    throw;
  } catch (const std::exception& error) {
    throw UserError(file.string() + ": " + error.what());
  }
}

}  // namespace ddprun
