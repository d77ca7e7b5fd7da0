// SPDX-License-Identifier: MIT
// What the tests of checkpoints share: a folder of their own, a small checkpoint, ranks as threads, children that die.
#pragma once

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_writer.h"
#include "support/same_tensors.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace ddprun {

// A fresh folder for one test, removed after it.
class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest();
  ~CheckpointTest() override;

  std::filesystem::path folder() const { return folder_; }
  std::filesystem::path file(const std::string& name) const { return folder_ / name; }
  std::filesystem::path path_of(int64_t step) const { return checkpoints_folder(folder_) / checkpoint_name(step); }

 private:
  std::filesystem::path folder_;
};

// An intact checkpoint of `step` in a world of that size; its values depend on the step and, in the last part, on the
// rank. Those of even steps leave weights out.
Checkpoint sample_checkpoint(int64_t step, int64_t world_size = 1);

// The same with averages and more of the optimizer's state: elements of each size, none, and in another order.
Checkpoint rich_checkpoint(int64_t step, int64_t world_size = 1);

// What a rank has of a checkpoint that all write: every so-many-th tensor of the optimizer and the averages.
Checkpoint part_of(const Checkpoint& whole, int64_t rank, int64_t world_size);

::testing::AssertionResult same(const Checkpoint& a, const Checkpoint& b);

// agree() of a run of one rank, and a writer for it.
std::string alone(const std::string& error);
CheckpointWriter lone_writer(const std::filesystem::path& run_dir, int64_t keep = 3);

// Runs `body(ranks)` on as many threads, with an agree() as collectives make it, leave() and take().
void on_ranks(int64_t world_size, const std::function<void(CheckpointWriter::Ranks)>& body);

// Runs `body` in a forked child and returns how it ended, as waitpid() tells it. A return is exit code 0, an
// exception 3.
int status_of_child(const std::function<void()>& body);

// The text of the UserError that `body` throws; a failure of the test where it throws none, or another exception.
std::string user_error_of(const std::function<void()>& body);

std::string read_bytes(const std::filesystem::path& file);
void write_bytes(const std::filesystem::path& file, const std::string& bytes);

// The names of what lies in <run>/checkpoints, sorted.
std::vector<std::string> names_in_checkpoints(const std::filesystem::path& run_dir);

}  // namespace ddprun
