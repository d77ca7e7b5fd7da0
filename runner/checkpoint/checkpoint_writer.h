// SPDX-License-Identifier: MIT
// Saves the checkpoints of one run and prunes old ones. Every rank calls it, from one thread at a time.
#pragma once

#include "base/run_files.h"
#include "checkpoint/checkpoint.h"

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ddprun {

class SharedFile;
struct Manifest;

class CheckpointWriter {
 public:
  struct Ranks {
    int64_t rank = 0;
    int64_t world_size = 1;
    // Called on the saving thread. Blocks until all ranks have called it. Each passes its own error text (empty if all
    // went well); all get the same non-empty one, if any: a full disk at rank 0 is an error on all.
    std::function<std::string(const std::string& my_error)> agree;
    // For checkpoints that all write (Checkpoint::is_shared); else they may be null. The first leaves rank 0 a text
    // before the next agree(); the second returns there, after it, what a rank has left.
    std::function<void(const std::string& text)> leave = {};
    std::function<std::string(int64_t rank)> take = {};
  };

  // Keeps the `keep` newest (at least 1) and always the best. `run_dir` exists; only rank 0 reads and writes there, and
  // others that have a part of a shared checkpoint.
  CheckpointWriter(const std::filesystem::path& run_dir, int64_t keep, Ranks ranks);

  // Writes checkpoints/step_<step>, points checkpoints/last to it, and checkpoints/best too if `best` is set; then
  // prunes. Returns its path. An existing whole checkpoint of the same step is kept as it is (but may become the best);
  // a broken one is replaced. Throws UserError on every rank if it fails (a full disk, no permission), with the file
  // and the cause; the temporary folder is then removed and the older checkpoints are untouched. Nothing is written
  // where others have removed or replaced the run's folder since the writer was made. What agree() throws passes
  // through. Ranks other than 0 only need to set the checkpoint's step.
  //
  // `before_it_counts`, which may be null, is called on rank 0 before the checkpoint gets its name. It waits for the
  // rows that the checkpoint stands for, which no resumed run would write again.
  std::filesystem::path save(const Checkpoint& checkpoint, bool best,
                             const std::function<void()>& before_it_counts = {});

  // Call when the run resumes from this checkpoint: points `last` to it and `best` to the best so far, whatever a save
  // that was cut off between renaming and relinking has left. Failures are in warnings().
  void resume(int64_t step);

  // Returns what the last save() or resume() could not tidy up: an old checkpoint that cannot be removed, a file system
  // without links. The checkpoint itself is safe. Empty on ranks other than 0.
  const std::vector<std::string>& warnings() const { return warnings_; }

  // Called at "begin", "created" (the files that all write), "rank_file" (one after the other), "model_file",
  // "state_file" (each written), "own_part" (this rank's of the files that all write), "compared" (what all have
  // written), "before_manifest", "before_rename", "after_rename", "before_prune", "done"; on others than rank 0 only
  // "begin", "own_part" and "done". Without a shared checkpoint there are neither "created", "own_part" nor "compared".
  void set_save_observer(std::function<void(std::string_view point)> observer) { observer_ = std::move(observer); }

 private:
  bool is_rank_zero() const { return ranks_.rank == 0; }
  void reached(std::string_view point) const;
  void for_all(int64_t step, const std::function<void()>& part);
  void by_all(int64_t step, const std::function<void()>& part);

  void write(const Checkpoint& checkpoint, bool best, const std::function<void()>& before_it_counts);
  void begin(int64_t step);
  void write_files(const Checkpoint& checkpoint, Manifest& manifest);
  std::vector<SharedFile> shared_files(const Checkpoint& checkpoint) const;
  void write_part(const std::vector<SharedFile>& files) const;
  void compare_parts(const std::vector<SharedFile>& files, Manifest& manifest) const;
  void publish(const Manifest& manifest, bool replaces);
  void put_in_place(const Manifest& manifest, bool replaces);

  void tidy(int64_t step);
  void point_links(int64_t step, std::optional<int64_t> best_step);
  void prune(int64_t step, int64_t best_step);
  void remove_leftovers();
  void warn_on_failure(const std::function<void()>& part);
  std::optional<int64_t> best_step_up_to(int64_t step);

  std::filesystem::path path_of(int64_t step) const;
  std::filesystem::path temporary_of(int64_t step) const;

  std::filesystem::path folder_;       // <run>/checkpoints
  std::optional<HeldFolder> run_dir_;  // of rank 0
  int64_t keep_;
  Ranks ranks_;
  std::function<void(std::string_view)> observer_;
  std::vector<std::string> warnings_;
  int64_t saved_step_ = -1;  // by this object; equal on all ranks
};

}  // namespace ddprun
