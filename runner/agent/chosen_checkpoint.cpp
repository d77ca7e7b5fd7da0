// SPDX-License-Identifier: MIT
#include "agent/chosen_checkpoint.h"

#include "base/files_below.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "launch/run_folder.h"
#include "plugin_host/plugin_file.h"

#include <ddprun/error.h>

#include <torch/headeronly/version.h>

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

void require_its_torch(const CheckpointInfo& checkpoint) {
  if (is_this_torch(checkpoint.torch)) return;
  const auto path = checkpoint.path.string();
  throw UserError(path + " was saved with LibTorch " + checkpoint.torch +
                  ", and this ddprun has LibTorch " TORCH_VERSION + ": resume with a ddprun for LibTorch " +
                  checkpoint.torch + ", or start a new run from its weights with pretrained.file=" + path);
}

}  // namespace

fs::path existing_run(const fs::path& folder) {
  require_kept_here(folder);
  return existing_part(folder);
}

fs::path existing_part(const fs::path& folder) {
  std::error_code error;
  const auto path = fs::canonical(folder, error);
  if (error) throw UserError(folder.string() + ": " + error.message());
  if (!open_below(path, "config.yaml").open())
    throw UserError(folder.string() + " is not a run folder: it has no config.yaml");
  return path;
}

CheckpointInfo choose_checkpoint(const fs::path& run, const std::string& word) {
  constexpr int kTries = 10;
  for (int tried = 1;; ++tried) {
    const auto path = path_of(run, word);
    if (fs::exists(path)) require_checkpoint(path, run, word);
    try {
      return verify_checkpoint(path);
    } catch (const UserError& error) {
      const bool pruned = !fs::exists(path) && tried < kTries;  // meanwhile: the link points to a newer one now
      if (!pruned) throw UserError(error.what() + advice(run));
    }
  }
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
  require_its_torch(checkpoint);
  return checkpoint.path;
}

}  // namespace ddprun
