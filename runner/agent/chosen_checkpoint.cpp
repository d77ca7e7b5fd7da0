// SPDX-License-Identifier: MIT
#include "agent/chosen_checkpoint.h"

#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "plugin_host/plugin_file.h"
#include "runs/run_state.h"

#include <ddprun/error.h>
#include <ddprun/version.h>

#include <torch/headeronly/version.h>

#include <cstdio>
#include <utility>

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

// Returns the folder that the word means now.
fs::path path_of(const fs::path& run, const std::string& word) {
  std::error_code error;
  const auto folder = checkpoints_folder(run);
  const auto in_run = fs::canonical(folder / word, error);
  const bool is_name = word.find('/') == word.npos;  // a link is ddprun's own, to a checkpoint beside it
  if (!error && is_name && in_run.parent_path() != fs::canonical(folder, error))
    throw UserError(
        (folder / word).string() + " leads to " + in_run.string() +
        ", and ddprun makes it a link to a checkpoint beside it: name the checkpoint itself, if that is the "
        "one you mean");
  if (!error) return in_run;
  const auto steps = checkpoint_steps(run);
  if (word == "last" && !steps.empty()) return checkpoints_folder(run) / checkpoint_name(steps.back());
  if (word == "best" || word == "last" || !fs::exists(word)) no_such_checkpoint(run, word);
  return word;
}

// Refuses a folder of pictures, for instance. A broken checkpoint of the run is a different case: another may be
// intact.
void require_checkpoint(const fs::path& path, const fs::path& run, const std::string& word) {
  if (fs::exists(path / kManifestFile) || path.parent_path() == checkpoints_folder(run)) return;
  throw UserError(word + " is not a checkpoint: it has no " + kManifestFile +
                  "; evaluate and predict read the run's own dataset; predict other files with --input, or use "
                  "dataset.root= for files of the same classes");
}

// Names the checkpoint to use if the chosen one is broken.
std::string advice(const fs::path& run) {
  std::vector<CheckpointFlaw> flaws;
  const auto whole = newest_checkpoint(run, flaws);
  return whole ? "; " + whole->path.filename().string() + " is intact" : "";
}

// Returns {0, 2} for "0.2.1": versions that differ in the last number alone read each other's files.
std::pair<int, int> release_of(const std::string& version) {
  std::pair<int, int> release;
  std::sscanf(version.c_str(), "%d.%d", &release.first, &release.second);
  return release;
}

bool is_later(const CheckpointInfo& checkpoint) { return release_of(checkpoint.ddprun) > release_of(DDPRUN_VERSION); }

std::string versions_of(const CheckpointInfo& checkpoint) {
  return checkpoint.path.string() + " was saved by ddprun " + checkpoint.ddprun +
         ", and this is ddprun " DDPRUN_VERSION;
}

// Refuses a checkpoint of a later version, and warns of an earlier one (docs/security.md, Compatibility).
void require_its_ddprun(const CheckpointInfo& checkpoint) {
  if (is_later(checkpoint))
    throw UserError(
        versions_of(checkpoint) +
        ", which may not know all that a run needs to continue as if it had never stopped: resume with ddprun " +
        checkpoint.ddprun + ", or start a new run from its weights with pretrained.file=" + checkpoint.path.string());
  if (release_of(checkpoint.ddprun) < release_of(DDPRUN_VERSION))
    log::warn(versions_of(checkpoint) + ": the run continues with what has changed since (CHANGELOG.md)");
}

void require_its_torch(const CheckpointInfo& checkpoint) {
  if (is_this_torch(checkpoint.torch)) return;
  const auto path = checkpoint.path.string();
  throw UserError(path + " was saved with LibTorch " + checkpoint.torch +
                  ", and this ddprun has LibTorch " TORCH_VERSION + ": resume with a ddprun for LibTorch " +
                  checkpoint.torch + ", or start a new run from its weights with pretrained.file=" + path);
}

// Returns what the logger jsonl wrote at the run's start; 0 if that is not known.
int64_t recorded_steps_per_epoch(const fs::path& run) {
  const auto start = read_json_file(run / "run.json");
  const auto steps = start.is_object() ? start.value("steps_per_epoch", nlohmann::json()) : nullptr;
  return steps.is_number_integer() ? steps.get<int64_t>() : 0;
}

}  // namespace

CheckpointInfo choose_checkpoint(const fs::path& run, const std::string& word) {
  constexpr int kTries = 10;
  for (int tried = 1;; ++tried) {
    const auto path = path_of(run, word);
    if (fs::exists(path)) require_checkpoint(path, run, word);
    try {
      auto checkpoint = verify_checkpoint(path);
      if (is_later(checkpoint)) log::warn(versions_of(checkpoint) + ": only its weights are read");
      return checkpoint;
    } catch (const UserError& error) {
      const bool pruned = !fs::exists(path) && tried < kTries;  // meanwhile: the link points to a newer one now
      if (!pruned) throw UserError(error.what() + advice(run));
    }
  }
}

Standing standing_of(const fs::path& run, const CheckpointInfo& checkpoint) {
  const auto steps = recorded_steps_per_epoch(run);
  const bool whole = steps > 0 && checkpoint.step % steps == 0;
  Standing standing{
      .place = whole ? "epoch " + std::to_string(checkpoint.step / steps) : "step " + std::to_string(checkpoint.step),
      .averaged = fs::exists(checkpoint.path / kAverageFile)};
  for (const auto& one : list_checkpoints(run)) {
    const bool is_this = checkpoint.path == checkpoints_folder(run) / one.name;
    standing.best |= is_this && one.best;
    standing.last |= is_this && one.last;
    for (const auto& [marked, word] : {std::pair(one.best, "best"), std::pair(one.last, "last")}) {
      if (!marked || is_this) continue;
      standing.others +=
          (standing.others.empty() ? "the " : ", the ") + (word + (" is " + one.name)) + ": add `" + word + "`";
    }
  }
  return standing;
}

std::string text_of(const Standing& standing) {
  auto text = standing.place;
  if (standing.best || standing.last)
    text += standing.best && standing.last ? ", the best and the last" : standing.best ? ", the best" : ", the last";
  if (standing.averaged) text += ", averaged weights (trainer.ema_decay)";
  return text + (standing.others.empty() ? "" : "; " + standing.others);
}

fs::path checkpoint_to_resume(const fs::path& run) {
  std::vector<CheckpointFlaw> flaws;
  const auto newest = newest_checkpoint(run, flaws);
  for (const auto& flaw : flaws)
    log::warn("skipped a broken checkpoint: " + flaw.path.string() + ": " + flaw.problem +
              (newest ? ". The run replaces it when it reaches this step again; move it away to keep it" : ""));
  if (!newest && !flaws.empty())
    throw UserError(log::text(
        run.string(), ": none of its ", flaws.size(),
        " checkpoints is intact, and ddprun never overwrites one. Restore the missing files, or restart the run "
        "from its first step by moving ",
        checkpoints_folder(run).string(), " away"));
  if (!newest) return {};
  require_its_ddprun(*newest);
  require_its_torch(*newest);
  return newest->path;
}

fs::path named_checkpoint(const std::string& from) {
  if (!fs::exists(fs::path(from) / kManifestFile)) {
    const auto newest = checkpoint_to_resume(from);
    if (newest.empty())
      throw UserError("checkpoint.resume: " + from + " is neither a checkpoint nor a run with a good one");
    return fs::absolute(newest);
  }
  const auto checkpoint = verify_checkpoint(from);
  require_its_ddprun(checkpoint);
  require_its_torch(checkpoint);
  return checkpoint.path;
}

}  // namespace ddprun
