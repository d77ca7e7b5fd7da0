// SPDX-License-Identifier: MIT
// A run's folder, as the report reads it. The files follow each other, with a zero between them.
#include "report/report.h"

#include "fuzz/fuzz_target.h"
#include "report/page.h"
#include "runs/config_lines.h"

#include <array>

namespace ddprun {

#ifdef DDPRUN_FUZZER
// Stands in for the generated file that holds the page: no target renders one.
const std::vector<PagePart>& page_parts() {
  static const std::vector<PagePart> none;
  return none;
}
#endif

void feed_report(std::string_view bytes) {
  constexpr std::array kFiles = {"metrics.jsonl", "tables.jsonl",     "events.jsonl", "summary.json",
                                 "config.yaml",   "environment.json", ".attempts",    "overrides.txt"};
  std::filesystem::path run_dir;
  for (const auto* name : kFiles) {
    const auto end = std::min(bytes.find('\0'), bytes.size());
    run_dir = fuzz::as_file(bytes.substr(0, end), name).parent_path();
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
  }
  constexpr size_t kMostPoints = 8;
  recorded_run(run_dir, kMostPoints).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  overrides_apart({read_overrides(run_dir), {}});
}

}  // namespace ddprun

DDPRUN_FUZZ_TARGET(report, feed_report)
