// SPDX-License-Identifier: MIT
#include "checkpoint/checkpoint_writer.h"

#include "checkpoint/checkpoint.h"
#include "checkpoint/shared_file.h"

#include <ddprun/error.h>
#include <ddprun/file_error.h>
#include <ddprun/files.h>
#include <ddprun/safetensors.h>

#include <cerrno>
#include <exception>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace ddprun {
namespace {

constexpr auto kTemporary = ".tmp";  // a save or a removal that was cut off
constexpr auto kBroken = ".broken";  // a broken checkpoint while it is being replaced

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

// Renames the checkpoint first, so that a kill does not leave what looks like a broken one. One that is being read
// stays until a later save.
void remove_checkpoint(const std::filesystem::path& path) {
  const auto lock = lock_for_removal(path);
  if (!lock) return;
  const auto doomed = with_suffix(path, kTemporary);
  std::filesystem::remove_all(doomed);
  rename_durably(path, doomed);
  std::filesystem::remove_all(doomed);
}

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
  if (is_rank_zero()) run_dir_.emplace(run_dir);
}

std::filesystem::path CheckpointWriter::save(const Checkpoint& checkpoint, bool best,
                                             const std::function<void()>& before_it_counts) {
  const int64_t step = checkpoint.step;
  if (step < 0) throw std::invalid_argument("CheckpointWriter: step is " + std::to_string(step));
  warnings_.clear();
  reached("begin");
  if (step != saved_step_ || checkpoint.replaces) {
    write(checkpoint, best, before_it_counts);
    saved_step_ = step;
  } else if (best) {
    for_all(step, [&] { mark_best(path_of(step)); });
  }
  if (is_rank_zero()) tidy(step);
  reached("done");
  return path_of(step);
}

// Runs one part of the save on every rank; it succeeds for all of them or fails for all.
void CheckpointWriter::by_all(int64_t step, const std::function<void()>& part) {
  const auto failed = "cannot save the checkpoint of step " + std::to_string(step) + ": ";
  std::string problem;
  try {
    part();
  } catch (const FileError& error) {
    problem = failed + (run_dir_ && !run_dir_->is_there() ? run_dir_->problem() : error.what());
  } catch (...) {
    problem = failed + cause_of(std::current_exception());
  }
  problem = ranks_.agree(problem);
  if (problem.empty()) return;
  std::error_code ignored;  // the problem is the one to report
  if (is_rank_zero()) std::filesystem::remove_all(temporary_of(step), ignored);
  throw UserError(problem);
}

// Runs it on rank 0 alone.
void CheckpointWriter::for_all(int64_t step, const std::function<void()>& part) {
  by_all(step, [&] {
    if (is_rank_zero()) part();
  });
}

void CheckpointWriter::write(const Checkpoint& checkpoint, bool best, const std::function<void()>& before_it_counts) {
  const int64_t step = checkpoint.step;
  Manifest manifest{.step = step, .world_size = ranks_.world_size, .best = best, .left_out = checkpoint.left_out};
  const auto finish = [&] {
    if (before_it_counts) before_it_counts();
    publish(manifest, checkpoint.replaces);
  };
  if (!checkpoint.is_shared) {
    return for_all(step, [&] {
      begin(step);
      write_files(checkpoint, manifest);
      finish();
    });
  }
  std::vector<SharedFile> shared;
  by_all(step, [&] {
    shared = shared_files(checkpoint);
    if (!is_rank_zero()) return;
    begin(step);
    for (const auto& file : shared) file.create();
    reached("created");
  });
  by_all(step, [&] {
    if (is_rank_zero()) write_files(checkpoint, manifest);
    write_part(shared);
  });
  for_all(step, [&] {
    compare_parts(shared, manifest);
    finish();
  });
}

std::filesystem::path CheckpointWriter::path_of(int64_t step) const { return folder_ / checkpoint_name(step); }

std::filesystem::path CheckpointWriter::temporary_of(int64_t step) const {
  return with_suffix(path_of(step), kTemporary);
}

void CheckpointWriter::reached(std::string_view point) const {
  if (observer_) observer_(point);
}

void CheckpointWriter::begin(int64_t step) {
  run_dir_->require();
  make_folder(folder_);
  std::filesystem::remove_all(temporary_of(step));
  make_folder(temporary_of(step));
}

void CheckpointWriter::write_files(const Checkpoint& checkpoint, Manifest& manifest) {
  const auto folder = temporary_of(checkpoint.step);
  for (int64_t rank = 0; rank < manifest.world_size; ++rank) {
    const auto& own = checkpoint.ranks.at(static_cast<size_t>(rank));
    manifest.files[rank_file(rank)] = write_safetensors(folder / rank_file(rank), own);
    reached("rank_file");
  }
  manifest.files[kModelFile] = write_safetensors(folder / kModelFile, checkpoint.model);
  reached("model_file");
  if (!checkpoint.is_shared) {
    if (!checkpoint.average.empty())
      manifest.files[kAverageFile] = write_safetensors(folder / kAverageFile, checkpoint.average);
    manifest.files[kOptimizerFile] = write_safetensors(folder / kOptimizerFile, checkpoint.optimizer);
  }
  DurableFile state(folder / kStateFile);
  state.write(checkpoint.progress.data(), checkpoint.progress.size());
  manifest.files[kStateFile] = state.finish();
  reached("state_file");
}

std::vector<SharedFile> CheckpointWriter::shared_files(const Checkpoint& checkpoint) const {
  const auto folder = temporary_of(checkpoint.step);
  std::vector<SharedFile> files;
  files.emplace_back(folder / kOptimizerFile, checkpoint.optimizer, checkpoint.optimizer_elsewhere, ranks_.rank);
  SharedFile average(folder / kAverageFile, checkpoint.average, checkpoint.average_elsewhere, ranks_.rank);
  if (average.holds_something()) files.push_back(std::move(average));
  return files;
}

// Leaves rank 0 the digests of what this rank has written, one for each file.
void CheckpointWriter::write_part(const std::vector<SharedFile>& files) const {
  std::string digests;
  for (const auto& file : files) digests += file.write_own() + "\n";
  ranks_.leave(digests);
  reached("own_part");
}

void CheckpointWriter::compare_parts(const std::vector<SharedFile>& files, Manifest& manifest) const {
  std::vector<std::vector<std::string>> written(files.size());
  for (int64_t rank = 0; rank < ranks_.world_size; ++rank) {
    std::istringstream digests(ranks_.take(rank));
    for (auto& of_file : written) std::getline(digests, of_file.emplace_back());
  }
  for (size_t i = 0; i < files.size(); ++i) manifest.files[files[i].path().filename()] = files[i].compared(written[i]);
  reached("compared");
}

// The digests are those of what was written, not of what would be read back, so that a page damaged on its way to a
// file server is found. So is a file that was removed or truncated meanwhile.
void CheckpointWriter::publish(const Manifest& manifest, bool replaces) {
  const auto temporary = temporary_of(manifest.step);
  for (const auto& [name, written] : manifest.files) {
    const FileDigest seen{size_of_file(temporary / name), written.sha256};
    if (seen != written) throw UserError((temporary / name).string() + ": " + contradiction(seen, written));
  }
  reached("before_manifest");
  write_manifest(temporary, manifest);
  reached("before_rename");
  put_in_place(manifest, replaces);
  reached("after_rename");
}

void CheckpointWriter::put_in_place(const Manifest& manifest, bool replaces) {
  const auto path = path_of(manifest.step);
  const auto temporary = temporary_of(manifest.step);
  if (is_whole(path)) {
    if (replaces) {
      exchange_durably(temporary, path);
    } else if (manifest.best) {
      mark_best(path);
    }
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
  const auto best_step = best_step_up_to(step);
  point_links(step, best_step);
  reached("before_prune");
  if (best_step) warn_on_failure([&] { prune(step, *best_step); });
  warn_on_failure([&] { remove_leftovers(); });
}

void CheckpointWriter::resume(int64_t step) {
  warnings_.clear();
  if (is_rank_zero()) point_links(step, best_step_up_to(step));
}

void CheckpointWriter::point_links(int64_t step, std::optional<int64_t> best_step) {
  warn_on_failure([&] { point_link_at(folder_ / "last", checkpoint_name(step)); });
  if (best_step.value_or(-1) >= 0)
    warn_on_failure([&] { point_link_at(folder_ / "best", checkpoint_name(*best_step)); });
}

// Steps later than this one (the run was resumed from an earlier checkpoint) neither count nor are removed.
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
    const auto name = entry.path().stem().string();
    const bool is_link = name.starts_with("last-") || name.starts_with("best-");  // that was not renamed
    if (is_link || step_of_name(name)) leftovers.push_back(entry.path());
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

// Reads the manifests, not the link, so that a kill between renaming and relinking loses nothing. Returns -1 if none is
// best, and nothing if one cannot be read, which may be it: then none is removed.
std::optional<int64_t> CheckpointWriter::best_step_up_to(int64_t step) {
  int64_t best = -1;
  for (const int64_t candidate : checkpoint_steps(folder_.parent_path())) {
    try {
      if (candidate <= step && read_manifest(path_of(candidate)).best) best = candidate;
    } catch (const FileError& error) {
      if (error.error() == ENOENT) continue;
      warnings_.emplace_back(error.what());
      return std::nullopt;
    } catch (const UserError&) {
      continue;  // broken: newest_checkpoint() reports it to the user
    }
  }
  return best;
}

}  // namespace ddprun
