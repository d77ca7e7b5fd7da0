// SPDX-License-Identifier: MIT
#include "cli/chosen_checkpoint.h"

#include <ddprun/error.h>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void no_such_checkpoint(const fs::path& run, const std::string& word) {
  std::string known;
  for (const char* link : {"best", "last"}) {
    if (fs::exists(checkpoints_folder(run) / link)) known += (known.empty() ? "" : ", ") + std::string(link);
  }
  for (const auto step : checkpoint_steps(run)) known += (known.empty() ? "" : ", ") + checkpoint_name(step);
  throw UserError(run.string() + " has no checkpoint " + word + "; " +
                  (known.empty() ? "it has none at all" : "it has: " + known));
}

}  // namespace

fs::path existing_run(const fs::path& folder) {
  std::error_code error;
  const auto path = fs::canonical(folder, error);
  if (error) throw UserError(folder.string() + ": " + error.message());
  if (!fs::exists(path / "config.yaml", error))
    throw UserError(folder.string() + " is no run's folder: there is no config.yaml in it");
  return path;
}

CheckpointInfo choose_checkpoint(const fs::path& run, const std::string& word) {
  const auto in_run = checkpoints_folder(run) / word;
  if (fs::exists(in_run)) return verify_checkpoint(in_run);
  const auto steps = checkpoint_steps(run);
  if (word == "last" && !steps.empty())
    return verify_checkpoint(checkpoints_folder(run) / checkpoint_name(steps.back()));
  if (word == "best" || word == "last" || !fs::exists(word)) no_such_checkpoint(run, word);
  return verify_checkpoint(word);
}

}  // namespace ddprun
