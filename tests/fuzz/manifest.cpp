// SPDX-License-Identifier: MIT
// What a checkpoint says of itself: as it stands, and again with the digest of its own that the rest is held against.
#include "checkpoint/checkpoint.h"
#include "fuzz/fuzz_target.h"
#include "strict_json.h"

namespace ddprun {
namespace {

void read(std::string_view bytes) { read_manifest(fuzz::as_file(bytes, kManifestFile).parent_path()); }

}  // namespace

void feed_manifest(std::string_view bytes) {
  nlohmann::json content;
  try {
    content = parse_strict_json(bytes);
  } catch (const std::exception&) {
    return read(bytes);
  }
  if (!content.is_object()) return read(bytes);
  content.erase("manifest_sha256");
  Sha256 sha;
  const auto text = content.dump();
  sha.update(text.data(), text.size());
  content["manifest_sha256"] = sha.hex();
  read(content.dump());
}

}  // namespace ddprun

DDPRUN_FUZZ_TARGET(manifest, feed_manifest)
