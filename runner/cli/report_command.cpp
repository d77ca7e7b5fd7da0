// SPDX-License-Identifier: MIT
// `ddprun report RUN...`: writes one run, or several compared, as one HTML file.
#include "agent/chosen_checkpoint.h"
#include "cli/commands.h"
#include "launch/worker_process.h"
#include "report/report.h"

#include <algorithm>
#include <iostream>

namespace ddprun {

int report(const Arguments& arguments) {
  std::vector<std::filesystem::path> runs;
  for (const auto& word : arguments.runs) {
    auto run = existing_run(word);
    if (std::ranges::find(runs, run) == runs.end()) runs.push_back(std::move(run));
  }
  std::filesystem::path out = arguments.out;
  if (out.empty()) out = runs.size() == 1 ? runs[0] / "report.html" : "report.html";
  write_report(runs, out);
  std::cout << out.string() << "\n";
  return kExitDone;
}

}  // namespace ddprun
