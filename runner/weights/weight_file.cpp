// SPDX-License-Identifier: MIT
#include "weights/weight_file.h"

#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "weights/whole_weights.h"

#include <ddprun/error.h>
#include <ddprun/files.h>

#include <nlohmann/json.hpp>
#include <strict_json.h>

#include <algorithm>
#include <array>
#include <exception>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndexEnding = ".safetensors.index.json";
constexpr size_t kMostNameBytes = 4096;  // as in a .safetensors file

// Returns whether torch.save() wrote the file: a ZIP archive or, of old, a pickle.
bool is_of_torch_save(const fs::path& file) {
  constexpr std::array<std::string_view, 3> kEndings{".pth", ".pt", ".bin"};
  if (std::ranges::find(kEndings, file.extension().string()) != kEndings.end()) return true;
  std::array<char, 4> first{};
  std::ifstream(file, std::ios::binary).read(first.data(), first.size());
  const std::string_view text(first.data(), first.size());
  return text == std::string_view("PK\3\4") || text.starts_with("\x80\x02");
}

[[noreturn]] void refuse_torch_save(const fs::path& file) {
  auto converted = file;
  converted.replace_extension(".safetensors");
  throw UserError(file.string() + ": torch.save() wrote it, as code for Python. Convert it: ddprun-convert-weights " +
                  file.string() + " " + converted.string() + " (tools/convert_weights in a clone)");
}

// Reads an index: {"metadata": {...}, "weight_map": {"fc.weight": "model-00002-of-00002.safetensors", ...}}. Returns
// the names of the tensors in each file.
std::map<std::string, std::set<std::string>> read_index(const fs::path& file) {
  const auto refuse = [&](const std::string& flaw) { throw UserError(file.string() + ": not a valid index: " + flaw); };
  nlohmann::json index;
  const auto bytes = map_file(file);
  try {
    index = parse_strict_json(bytes.text());
  } catch (const std::exception& error) {
    refuse(error.what());
  }
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  if (map == index.end() || !map->is_object() || map->empty()) refuse("it has no weight_map of tensors and files");
  std::map<std::string, std::set<std::string>> files;
  for (const auto& [name, shard] : map->items()) {
    const auto text = shard.is_string() ? shard.get<std::string>() : "";
    if (name.size() > kMostNameBytes) refuse(log::text("a tensor's name has ", name.size(), " bytes"));
    if (text.empty() || text.size() > kMostNameBytes || text.find('/') != text.npos)
      refuse("the place of " + name + " is " + (text.empty() ? describe(shard) : text.substr(0, 50)) +
             ", expected the name of a file beside it");
    files[text].insert(name);
  }
  return files;
}

TensorDict read_shards(const fs::path& index) {
  TensorDict all;
  for (const auto& [shard, names] : read_index(index)) {
    const auto file = index.parent_path() / shard;
    std::error_code ignored;
    if (!fs::exists(file, ignored))
      throw UserError(file.string() + ": no such file; " + index.string() + " names it, for " + *names.begin() +
                      (names.size() == 1 ? "" : log::text(" and ", names.size() - 1, " more tensors")));
    auto tensors = read_safetensors(file);
    for (const auto& name : names)
      if (!tensors.contains(name))
        throw UserError(file.string() + ": it has no " + name + ", which " + index.string() + " promises");
    for (const auto& [name, tensor] : tensors)
      if (!all.emplace(name, tensor).second)
        throw UserError(file.string() + ": it has " + name + ", and so has another file of " + index.string());
  }
  return all;
}

// Returns the one index in a folder, if there is any.
std::optional<fs::path> index_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code ignored;
  for (fs::directory_iterator at(folder, ignored), end; at != end; at.increment(ignored))
    if (at->path().filename().string().ends_with(kIndexEnding)) found.push_back(at->path());
  if (found.size() > 1)
    throw UserError(folder.string() + ": it holds several: " + found[0].filename().string() + ", " +
                    found[1].filename().string() + "; name one of them");
  return found.empty() ? std::nullopt : std::optional(found.front());
}

}  // namespace

TensorDict read_weights(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) {
    if (path.filename().string().ends_with(kIndexEnding)) return read_shards(path);
    if (is_of_torch_save(path)) refuse_torch_save(path);
    return read_safetensors(path);
  }
  if (!fs::exists(path, ignored)) throw UserError(path.string() + ": no such file or folder");
  if (fs::exists(path / kManifestFile, ignored)) return whole_weights(verify_checkpoint(path));
  if (const auto index = index_in(path)) return read_shards(*index);
  std::vector<CheckpointFlaw> flaws;
  if (const auto newest = newest_checkpoint(path, flaws)) return whole_weights(*newest);
  throw UserError(
      path.string() +
      " is neither a .safetensors file, nor the folder of a model.safetensors.index.json, nor a checkpoint, "
      "nor a run with a good one");
}

}  // namespace ddprun
