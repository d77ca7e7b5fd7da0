// SPDX-License-Identifier: MIT
#include "cli/transformers_folder.h"

#include "base/private_folder.h"
#include "base/run_files.h"

#include <ddprun/error.h>
#include <ddprun/files.h>

#include <caffe2/serialize/inline_container.h>
#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr auto kInstead = "; --out m.safetensors writes the weights alone, by the names of its state_dict()";

// What tools/export_model has noted of a network of transformers; null if it has noted nothing.
Json noted_in(const fs::path& program) try {
  caffe2::serialize::PyTorchStreamReader reader(program.string());
  if (!reader.hasRecord("extra/ddprun.json")) return nullptr;
  const auto [data, size] = reader.getRecord("extra/ddprun.json");
  const auto about = Json::parse(std::string_view(static_cast<const char*>(data.get()), size));
  const auto found = about.find("transformers");
  return found == about.end() ? Json() : *found;
} catch (const nlohmann::json::exception& error) {
  throw UserError(program.string() + ": it is damaged: " + error.what());
} catch (const c10::Error& error) {
  throw UserError(program.string() + ": it is damaged: " + error.what_without_backtrace());
}

Json configuration_in(const fs::path& program) {
  if (program.empty())
    throw UserError("--format transformers: the run's model is no network of transformers, exported from Python" +
                    std::string(kInstead));
  auto noted = noted_in(program);
  const bool is_whole = noted.is_object() && noted.contains("config") && noted["config"].is_string();
  if (!is_whole)
    throw UserError(
        "--format transformers: " + program.string() +
        " knows no configuration: ddprun-export-model writes one into the file of a network that is a class "
        "of transformers itself (SOURCE transformers:NAME, or a function that returns one)" +
        kInstead);
  return noted;
}

void write_files(const fs::path& folder, const Json& noted, const TensorDict& weights) {
  replace_file(folder / "config.json", noted["config"].get<std::string>());
  if (const auto generation = noted.find("generation"); generation != noted.end() && generation->is_string())
    replace_file(folder / "generation_config.json", generation->get<std::string>());
  write_safetensors(folder / "model.safetensors", weights);
}

}  // namespace

size_t write_transformers_folder(const fs::path& program, const std::function<TensorDict()>& weights,
                                 const fs::path& folder, bool replaces) {
  const auto noted = configuration_in(program);
  auto target = fs::absolute(folder).lexically_normal();
  if (!target.has_filename()) target = target.parent_path();  // "gpt2/"
  const bool is_there = fs::exists(target);
  if (is_there && !replaces)
    throw UserError(
        "--out " + folder.string() +
        ": it is there already; choose another name, or --force replaces config.json and the weights in it");
  if (!fs::is_directory(is_there ? target : target.parent_path()))
    throw UserError("--out " + folder.string() + ": expected the name of a folder, below one that is there");
  auto written = weights();
  for (const auto& name : noted.value("tied", Json::array())) written.erase(name.get<std::string>());
  const PrivateFolder draft(target.parent_path());
  const auto made = draft.path() / "made";
  make_folder(made);
  write_files(made, noted, written);
  if (!is_there) rename_to_new(made, target);
  for (const auto& file : is_there ? fs::directory_iterator(made) : fs::directory_iterator())
    rename_durably(file.path(), target / file.path().filename());
  return written.size();
}

}  // namespace ddprun
