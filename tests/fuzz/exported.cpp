// SPDX-License-Identifier: MIT
// Archives of torch.export: the program in JSON by itself, which is most of it, and whole files.
#include "fuzz/fuzz_target.h"
#include "program.h"
#include "program_file.h"
#include "strict_json.h"

#include <algorithm>
#include <string>
#include <vector>

namespace ddprun {
namespace {

void find_blocks(exported::Program program) {
  program.find_blocks([](exported::Block&, const std::vector<std::string>&) {});
}

void read_program(std::string_view bytes) {
  constexpr size_t kMostDepth = 64;
  nlohmann::json json;
  try {
    json = parse_strict_json(bytes, kMostDepth);
  } catch (const std::exception&) {
    return;  // the archive's reader refuses it with these words
  }
  find_blocks(exported::Program(json));
}

}  // namespace

void feed_exported(std::string_view bytes) try {
  if (bytes.starts_with("{")) return read_program(bytes);
  const exported::Archive archive(fuzz::as_file(bytes));
  const auto results = std::max<size_t>(archive.results().size(), 1);
  for (const auto* json : {&archive.training(), &archive.evaluation()})
    if (!json->is_null()) find_blocks(exported::Program(*json, results));
  if (!archive.prediction().is_null()) exported::Program program(archive.prediction());
  const auto tensors = archive.tensors();
} catch (const nlohmann::json::exception&) {  // something is missing in the JSON: the model says that it is damaged
}

}  // namespace ddprun

DDPRUN_FUZZ_TARGET(exported, feed_exported)

// LibTorch's reader of archives loses what it has allocated, a kilobyte, if it refuses one in its constructor. A
// process reads one archive, and ends where that is refused.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {
  return "leak:mz_zip_reader_init\nleak:mz_zip_reader_read_central_dir";
}
