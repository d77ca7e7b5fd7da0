// SPDX-License-Identifier: MIT
#include "cli/table_arrays.h"

#include "base/nearest_path.h"
#include "cli/torch_python.h"
#include "command_line/arguments.h"
#include "picture_files.h"

#include <ddprun/error.h>

#include <string_view>
#include <system_error>
#include <vector>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr auto kTool = "lib/table_arrays/__main__.py";

// The tool says itself which packages its Python lacks.
fs::path some_python() try { return find_torch_python(); } catch (const UserError&) {
  return "python3";
}

// Returns the text behind "ddprun init: error: ".
std::string without_prefix(const std::string& message) {
  constexpr std::string_view kPrefix = "error: ";
  const auto at = message.find(kPrefix);
  return at == message.npos ? message : message.substr(at + kPrefix.size());
}

}  // namespace

bool is_table(const fs::path& file) {
  std::error_code ignored;
  return is_table_name(file.filename().string()) && !fs::is_directory(file, ignored);
}

TableArrays::TableArrays(const Arguments& arguments, fs::path folder) : folder_(std::move(folder)) {
  std::error_code ignored;
  if (!fs::exists(arguments.target, ignored))
    throw UserError(arguments.target + ": there is no such file" + did_you_mean(arguments.target));
  if (fs::exists(fs::symlink_status(folder_, ignored)))
    throw UserError(folder_.string() +
                    ": it exists already, and the table's arrays go there; remove it, name another " +
                    "experiment with --out");
  std::vector<std::string> words{"--table=" + arguments.target, "--out", folder_.string()};
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {option, value});
  };
  add("--target", arguments.target_column);
  add("--input", arguments.input_columns);
  add("--task", arguments.task);
  if (arguments.drop_missing) words.emplace_back("--drop-missing");
  try {
    account_ = run_tool(some_python(), kTool, words);
  } catch (const UserError& error) {
    fs::remove_all(folder_, ignored);
    throw UserError(without_prefix(error.what()));
  }
}

TableArrays::~TableArrays() {
  std::error_code ignored;
  if (!keeps_) fs::remove_all(folder_, ignored);
}

}  // namespace ddprun
