// SPDX-License-Identifier: MIT
// What the tests of checkpoints share: a folder of their own, a small checkpoint, ranks as threads, children that die.
#pragma once

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_writer.h"
#include "support/error_of.h"
#include "support/same_tensors.h"
#include "support/temporary_folder.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

// The names of what lies in a folder, sorted, with blanks between them.
std::string names_in(const std::filesystem::path& folder);

// A fresh run's folder for one test.
class CheckpointTest : public FolderTest {
 protected:
  std::filesystem::path folder() const { return folder_; }
  std::filesystem::path file(const std::string& name) const { return folder_ / name; }
  std::filesystem::path path_of(int64_t step) const { return checkpoints_folder(folder_) / checkpoint_name(step); }

  // The names of what lies in the run's folder of checkpoints, sorted, with blanks between them.
  std::string names() const { return names_in(checkpoints_folder(folder_)); }

  std::optional<CheckpointInfo> newest() const {
    std::vector<CheckpointFlaw> flaws;
    return newest_checkpoint(folder_, flaws);
  }
};

// An intact checkpoint of `step` in a world of that size; its values depend on the step and, in the last part, on the
// rank. Those of even steps leave weights out.
Checkpoint sample_checkpoint(int64_t step, int64_t world_size = 1);

// The same with averages and more of the optimizer's state: elements of each size, none, and in another order.
Checkpoint rich_checkpoint(int64_t step, int64_t world_size = 1);

// What a rank has of a checkpoint that all write: every so-many-th tensor of the optimizer and the averages.
Checkpoint part_of(const Checkpoint& whole, int64_t rank, int64_t world_size);

::testing::AssertionResult same(const Checkpoint& a, const Checkpoint& b);

// Of a run of one rank.
CheckpointWriter lone_writer(const std::filesystem::path& run_dir, int64_t keep = 3);

// Runs `body(ranks)` on as many threads, with an agree() as collectives make it, leave() and take().
void on_ranks(int64_t world_size, const std::function<void(CheckpointWriter::Ranks)>& body);

// Runs `body` in a forked child and returns how it ended, as waitpid() says it. A return is exit code 0, an
// exception 3.
int status_of_child(const std::function<void()>& body);

}  // namespace ddprun
