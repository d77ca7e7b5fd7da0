// SPDX-License-Identifier: MIT
#include "checkpoint/checkpoint_writer.h"

#include <ddprun/error.h>

#include <exception>
#include <stdexcept>
#include <utility>

#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/training_file.h"

namespace ddprun {
namespace {

constexpr auto kTemporary = ".tmp";  // a save or a removal that was cut off
constexpr auto kBroken = ".broken";  // a broken checkpoint while another takes its place

std::filesystem::path with_suffix(const std::filesystem::path& path, const char* suffix) {
  return path.string() + suffix;
}

bool is_whole(const std::filesystem::path& path) {
  try {
    verify_checkpoint(path);
    return true;
  } catch (const UserError&) {
    return false;
  }
}

void mark_best(const std::filesystem::path& path) {
  auto manifest = read_manifest(path);
  if (!std::exchange(manifest.best, true)) write_manifest(path, manifest);
}

// Takes the checkpoint's name away first: what a kill leaves of it then does not look like a broken checkpoint. One that somebody
// reads stays until a later save.
void remove_checkpoint(const std::filesystem::path& path) {
  const auto lock = lock_for_removal(path);
  if (!lock) return;
  const auto doomed = with_suffix(path, kTemporary);
  std::filesystem::remove_all(doomed);
  rename_durably(path, doomed);
  std::filesystem::remove_all(doomed);
}

// A digest as ranks tell it to each other: "6360 9f86d0...".
std::string text_of(const FileDigest& digest) { return std::to_string(digest.size) + " " + digest.sha256; }

FileDigest digest_of_text(const std::string& text) {
  const auto space = text.find(' ');
  return {std::stoull(text.substr(0, space)), text.substr(space + 1)};
}

// What was being written was taken away.
class FolderGone : public UserError {
 public:
  using UserError::UserError;
};

std::string cause_of(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

}  // namespace

CheckpointWriter::CheckpointWriter(const std::filesystem::path& run_dir, int64_t keep, Ranks ranks)
    : folder_(checkpoints_folder(run_dir)), keep_(keep), ranks_(std::move(ranks)) {
  if (keep_ < 1) throw std::invalid_argument("CheckpointWriter: keep is " + std::to_string(keep_));
  if (!ranks_.agree) throw std::invalid_argument("CheckpointWriter: no agree()");
}

std::filesystem::path CheckpointWriter::save(const Checkpoint& checkpoint, bool best,
                                             const std::function<void()>& before_it_counts) {
  const int64_t step = checkpoint.step;
  if (step < 0) throw std::invalid_argument("CheckpointWriter: step is " + std::to_string(step));
  warnings_.clear();
  reached("begin");
  if (step != saved_step_) {
    try {
      write(checkpoint, best, before_it_counts);
    } catch (const FolderGone& gone) {
      // Once more, where there is nothing any more: this may be all that is left of the run.
      if (leads()) warnings_.push_back(std::string(gone.what()) + "; it is written once more");
      write(checkpoint, best, before_it_counts);
    }
    saved_step_ = step;
  } else if (best) {
    together(step, [&] {
      if (leads()) mark_best(path_of(step));
      return "";
    });
  }
  if (leads()) tidy(step);
  reached("done");
  return path_of(step);
}

void CheckpointWriter::write(const Checkpoint& checkpoint, bool best, const std::function<void()>& before_it_counts) {
  const int64_t step = checkpoint.step;
  Manifest manifest{.step = step, .world_size = ranks_.world_size, .best = best};
  together(step, [&] { return begin(step), ""; });
  const auto digests = together(step, [&] { return text_of(write_files(checkpoint, manifest)); });
  together(step, [&] {
    if (leads() && before_it_counts) before_it_counts();
    return publish(manifest, digests), "";
  });
}

std::filesystem::path CheckpointWriter::path_of(int64_t step) const { return folder_ / checkpoint_name(step); }

std::filesystem::path CheckpointWriter::temporary_of(int64_t step) const {
  return with_suffix(path_of(step), kTemporary);
}

void CheckpointWriter::reached(std::string_view point) const {
  if (observer_) observer_(point);
}

// A part of the save that succeeds on all ranks or fails on all. Returns the ranks' notes, what `part` returns, on rank 0.
std::vector<std::string> CheckpointWriter::together(int64_t step, const std::function<std::string()>& part) {
  std::string problem, note;
  try {
    note = part();
  } catch (...) {
    problem = "cannot save the checkpoint of step " + std::to_string(step) + " (rank " + std::to_string(ranks_.rank) +
              "): " + cause_of(std::current_exception());
  }
  auto [first, notes] = ranks_.agree(problem, note);
  if (first.empty()) return notes;
  std::error_code ignored;  // the first problem is the one to tell
  const auto there = [&](const std::filesystem::path& path) {
    return std::filesystem::exists(path, ignored) || ignored;
  };
  const bool gone = leads() && !there(temporary_of(step)) && !there(path_of(step));
  if (!ranks_.agree(gone ? "gone" : "", "").error.empty()) throw FolderGone(first);
  if (leads()) std::filesystem::remove_all(temporary_of(step), ignored);
  throw UserError(first);
}

void CheckpointWriter::begin(int64_t step) {
  if (!leads()) return;
  make_folder(folder_);
  std::filesystem::remove_all(temporary_of(step));
  make_folder(temporary_of(step));
}

// Returns what this rank has to tell rank 0: the digest of its own file.
FileDigest CheckpointWriter::write_files(const Checkpoint& checkpoint, Manifest& manifest) {
  const auto folder = temporary_of(checkpoint.step);
  const TrainingFile own{.tensors = {{"rank", checkpoint.rank}}, .texts = {}};
  const auto digest = write_training_file(folder / rank_file(ranks_.rank), own);
  reached("rank_file");
  if (!leads()) return digest;

  manifest.files[kModelFile] = write_safetensors(folder / kModelFile, checkpoint.model);
  reached("model_file");
  if (!checkpoint.average.empty()) {
    manifest.files[kAverageFile] = write_safetensors(folder / kAverageFile, checkpoint.average);
  }
  const TrainingFile training{.tensors = {{"optimizer", checkpoint.optimizer}},
                              .texts = {{"progress", checkpoint.progress}}};
  manifest.files[kTrainingFile] = write_training_file(folder / kTrainingFile, training);
  reached("training_file");
  return digest;
}

// The digests are those of what each rank has written, not of what rank 0 would read back: a page that was spoiled on its way to a
// file server is found. A file that rank 0 does not see at all lies on another machine's own disk.
void CheckpointWriter::publish(Manifest& manifest, const std::vector<std::string>& digests) {
  if (!leads()) return;
  const auto temporary = temporary_of(manifest.step);
  for (int64_t rank = 0; rank < manifest.world_size; ++rank) {
    const auto file = temporary / rank_file(rank);
    const auto written = digest_of_text(digests.at(static_cast<size_t>(rank)));
    const FileDigest seen{size_of_file(file), written.sha256};
    if (seen != written) throw UserError(file.string() + ": " + contradiction(seen, written));
    manifest.files[rank_file(rank)] = written;
  }
  reached("before_manifest");
  write_manifest(temporary, manifest);
  reached("before_rename");
  put_in_place(manifest);
  reached("after_rename");
}

void CheckpointWriter::put_in_place(const Manifest& manifest) {
  const auto path = path_of(manifest.step);
  const auto temporary = temporary_of(manifest.step);
  if (is_whole(path)) {
    if (manifest.best) mark_best(path);
    std::filesystem::remove_all(temporary);
    return;
  }
  if (std::filesystem::exists(std::filesystem::symlink_status(path))) {
    const auto broken = with_suffix(path, kBroken);
    std::filesystem::remove_all(broken);
    rename_durably(path, broken);
  }
  rename_durably(temporary, path);
}

void CheckpointWriter::tidy(int64_t step) {
  const int64_t best_step = best_step_up_to(step);
  point_links(step, best_step);
  reached("before_prune");
  warn_on_failure([&] { prune(step, best_step); });
  warn_on_failure([&] { remove_leftovers(); });
}

void CheckpointWriter::resume(int64_t step) {
  warnings_.clear();
  if (leads()) point_links(step, best_step_up_to(step));
}

void CheckpointWriter::point_links(int64_t step, int64_t best_step) {
  warn_on_failure([&] { point_link_at(folder_ / "last", checkpoint_name(step)); });
  if (best_step >= 0) warn_on_failure([&] { point_link_at(folder_ / "best", checkpoint_name(best_step)); });
}

// Later steps than this one's (the run was resumed from an earlier checkpoint) neither count nor are removed.
void CheckpointWriter::prune(int64_t step, int64_t best_step) {
  auto steps = checkpoint_steps(folder_.parent_path());
  std::erase_if(steps, [&](int64_t other) { return other > step; });
  for (auto left = static_cast<int64_t>(steps.size()); const int64_t old : steps) {
    if (left-- <= keep_) break;
    if (old == best_step || old == step) continue;
    warn_on_failure([&] { remove_checkpoint(path_of(old)); });
  }
}

void CheckpointWriter::remove_leftovers() {
  std::vector<std::filesystem::path> leftovers;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    const auto suffix = entry.path().extension();
    if (suffix != kTemporary && suffix != kBroken) continue;
    if (step_of_name(entry.path().stem().string())) leftovers.push_back(entry.path());
  }
  for (const auto& leftover : leftovers) {
    warn_on_failure([&] { std::filesystem::remove_all(leftover); });
  }
}

void CheckpointWriter::warn_on_failure(const std::function<void()>& part) {
  try {
    part();
  } catch (const std::exception& failure) {
    warnings_.emplace_back(failure.what());
  }
}

// From the manifests, not from the link: a kill between the rename and the link's change loses nothing. -1: none is
// best.
int64_t CheckpointWriter::best_step_up_to(int64_t step) const {
  int64_t best = -1;
  for (const int64_t candidate : checkpoint_steps(folder_.parent_path())) {
    try {
      if (candidate <= step && read_manifest(path_of(candidate)).best) best = candidate;
    } catch (const UserError&) {
      continue;  // broken: newest_checkpoint() tells it to the user
    }
  }
  return best;
}

}  // namespace ddprun
