// SPDX-License-Identifier: MIT
#include "checkpoint/manifest.h"

#include "strict_json.h"

#include <ddprun/error.h>
#include <ddprun/version.h>

#include <torch/version.h>

#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>

namespace ddprun {
namespace {

using nlohmann::json;

constexpr int64_t kFormat = 1;
constexpr auto kOwnDigest = "manifest_sha256";
constexpr uint64_t kLargestManifest = 64 << 20;  // a rank needs 0.1 kB

std::string sha256_of(const std::string& text) {
  Sha256 sha;
  sha.update(text.data(), text.size());
  return sha.hex();
}

json to_json(const Manifest& manifest) {
  json files = json::object();
  for (const auto& [name, digest] : manifest.files) files[name] = {{"size", digest.size}, {"sha256", digest.sha256}};
  json content = {{"format", kFormat},        {"step", manifest.step},    {"world_size", manifest.world_size},
                  {"best", manifest.best},    {"ddprun", DDPRUN_VERSION}, {"torch", TORCH_VERSION},
                  {"files", std::move(files)}};
  content[kOwnDigest] = sha256_of(content.dump());
  return content;
}

std::string read_text(const std::filesystem::path& file) {
  std::error_code error;
  const auto size = std::filesystem::file_size(file, error);
  if (error) throw std::runtime_error("cannot read: " + error.message());
  if (size > kLargestManifest) throw std::runtime_error(std::to_string(size) + " bytes are too many");
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in || text.size() != size) throw std::runtime_error("cannot read it to its end");
  return text;
}

void check_format(json& content) {
  const auto format = to_count(content.at("format"));
  if (format > kFormat) {
    throw std::runtime_error("its format is " + std::to_string(format) + ", this ddprun reads up to " +
                             std::to_string(kFormat) + "; use a newer ddprun");
  }
  const auto stated = content.at(kOwnDigest).get<std::string>();
  content.erase(kOwnDigest);
  if (sha256_of(content.dump()) != stated) throw std::runtime_error("its content does not match its own SHA-256");
}

// The names are known beforehand, so a manifest can neither name a file elsewhere nor leave one out.
void check_files(const Manifest& manifest) {
  std::set<std::string> expected = {kModelFile, kTrainingFile};
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
                    .torch = content.at("torch").get<std::string>(),
                    .best = content.at("best").get<bool>()};
  for (const auto& [name, digest] : content.at("files").items()) {
    manifest.files[name] = {to_count(digest.at("size")), digest.at("sha256").get<std::string>()};
  }
  check_files(manifest);
  return manifest;
}

}  // namespace

std::string rank_file(int64_t rank) { return "rank_" + std::to_string(rank) + ".pt"; }

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
    return parse(read_text(file));
  } catch (const std::exception& error) {
    throw UserError(file.string() + ": " + error.what());
  }
}

}  // namespace ddprun
