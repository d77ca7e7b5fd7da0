// SPDX-License-Identifier: MIT
#include "checkpoint/checkpoint_writer.h"

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_fixture.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <mutex>
#include <stdexcept>

namespace ddprun {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Writer : public CheckpointTest {
 protected:
  std::vector<std::string> names() const { return names_in_checkpoints(folder()); }
  std::string link(const char* name) const {
    return std::filesystem::read_symlink(checkpoints_folder(folder()) / name);
  }
  Checkpoint newest() const {
    std::vector<CheckpointFlaw> flaws;
    const auto info = newest_checkpoint(folder(), flaws);
    return info ? read_checkpoint(*info) : Checkpoint{.step = -1};
  }
};

TEST_F(Writer, WritesTheFilesOfTheDesign) {
  EXPECT_EQ(lone_writer(folder()).save(sample_checkpoint(1200), true), path_of(1200));
  EXPECT_THAT(names(), ElementsAre("best", "last", "step_00001200"));
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(path_of(1200))) files.push_back(entry.path().filename());
  EXPECT_THAT(files, ::testing::UnorderedElementsAre("model.safetensors", "optimizer.safetensors", "state.json",
                                                     "rank_0.safetensors", "manifest.json"));
}

TEST_F(Writer, PointsLastAndBestByRelativeLinks) {
  auto writer = lone_writer(folder());
  writer.save(sample_checkpoint(1), false);
  EXPECT_THAT(names(), ElementsAre("last", "step_00000001"));
  writer.save(sample_checkpoint(2), true);
  writer.save(sample_checkpoint(3), false);
  EXPECT_EQ(link("last"), "step_00000003");
  EXPECT_EQ(link("best"), "step_00000002");
}

TEST_F(Writer, KeepsTheNewestAndTheBest) {
  auto writer = lone_writer(folder(), 2);
  for (const int64_t step : {1, 2, 3, 4, 5, 6}) writer.save(sample_checkpoint(step), step == 2);
  EXPECT_THAT(names(), ElementsAre("best", "last", "step_00000002", "step_00000005", "step_00000006"));
  writer.save(sample_checkpoint(7), true);
  EXPECT_THAT(names(), ElementsAre("best", "last", "step_00000006", "step_00000007"));
  EXPECT_EQ(link("best"), "step_00000007");
}

TEST_F(Writer, KeepsWhatIsBeingReadUntilALaterSave) {
  auto writer = lone_writer(folder(), 1);
  std::optional read = verify_checkpoint(writer.save(sample_checkpoint(1), false));
  writer.save(sample_checkpoint(2), false);
  EXPECT_THAT(names(), ElementsAre("last", "step_00000001", "step_00000002"));
  read.reset();
  writer.save(sample_checkpoint(3), false);
  EXPECT_THAT(names(), ElementsAre("last", "step_00000003"));
}

TEST_F(Writer, NeverPrunesTheOneJustWritten) {
  auto writer = lone_writer(folder(), 1);
  writer.save(sample_checkpoint(9), false);
  writer.save(sample_checkpoint(5), false);  // resumed from an earlier one: the later steps are not its own
  EXPECT_THAT(names(), ElementsAre("last", "step_00000005", "step_00000009"));
  EXPECT_EQ(link("last"), "step_00000005");
}

TEST_F(Writer, KeepsAWholeCheckpointOfTheSameStep) {
  lone_writer(folder()).save(sample_checkpoint(4), false);
  auto other = sample_checkpoint(4);
  other.progress = "another";
  lone_writer(folder()).save(other, false);
  EXPECT_TRUE(same(newest(), sample_checkpoint(4)));
  EXPECT_THAT(names(), ElementsAre("last", "step_00000004"));
}

TEST_F(Writer, MakesTheSameStepTheBestLater) {
  auto writer = lone_writer(folder(), 1);
  writer.save(sample_checkpoint(4), false);
  writer.save(sample_checkpoint(4), true);
  EXPECT_EQ(link("best"), "step_00000004");
  lone_writer(folder(), 1).save(sample_checkpoint(5), false);
  lone_writer(folder(), 1).save(sample_checkpoint(5), true);
  EXPECT_THAT(names(), ElementsAre("best", "last", "step_00000005"));
  EXPECT_EQ(newest().step, 5);
}

TEST_F(Writer, ReplacesABrokenCheckpointOfTheSameStep) {
  lone_writer(folder()).save(sample_checkpoint(4), false);
  write_bytes(path_of(4) / kModelFile, "nonsense");
  lone_writer(folder()).save(sample_checkpoint(4), false);
  EXPECT_TRUE(same(newest(), sample_checkpoint(4)));
  EXPECT_THAT(names(), ElementsAre("last", "step_00000004"));
}

TEST_F(Writer, RemovesWhatCutOffSavesLeft) {
  std::filesystem::create_directories(path_of(3).string() + ".tmp");
  std::filesystem::create_directories(path_of(4).string() + ".tmp/deep");
  std::filesystem::create_directories(path_of(5).string() + ".broken");
  std::filesystem::create_directories(checkpoints_folder(folder()) / "mine.tmp");
  lone_writer(folder()).save(sample_checkpoint(4), false);
  EXPECT_THAT(names(), ElementsAre("last", "mine.tmp", "step_00000004"));
}

TEST_F(Writer, FindsTheBestAgainWithoutItsLink) {
  auto writer = lone_writer(folder(), 1);
  writer.save(sample_checkpoint(1), true);
  std::filesystem::remove(checkpoints_folder(folder()) / "best");
  writer.save(sample_checkpoint(2), false);
  EXPECT_EQ(link("best"), "step_00000001");
}

// The last save of a run was cut off between its name and its links, so the resumed run has nothing to save.
TEST_F(Writer, AResumedRunPointsTheLinksAtWhereItGoesOn) {
  lone_writer(folder()).save(sample_checkpoint(1), true);
  lone_writer(folder()).save(sample_checkpoint(2), true);
  for (const char* name : {"last", "best"}) {
    std::filesystem::remove(checkpoints_folder(folder()) / name);
    std::filesystem::create_directory_symlink(checkpoint_name(1), checkpoints_folder(folder()) / name);
  }
  lone_writer(folder()).resume(2);
  EXPECT_EQ(link("last"), "step_00000002");
  EXPECT_EQ(link("best"), "step_00000002");
}

TEST_F(Writer, WarnsOfWhatItCannotTidyUp) {
  auto writer = lone_writer(folder(), 1);
  writer.save(sample_checkpoint(1), false);
  EXPECT_THAT(writer.warnings(), ElementsAre());
  std::filesystem::remove(checkpoints_folder(folder()) / "last");
  std::filesystem::create_directories(checkpoints_folder(folder()) / "last");  // where the link should stand
  writer.save(sample_checkpoint(2), false);
  EXPECT_THAT(writer.warnings(), ElementsAre(HasSubstr("last")));
  EXPECT_EQ(newest().step, 2);
}

TEST_F(Writer, PassesItsPointsInOrder) {
  auto writer = lone_writer(folder());
  std::vector<std::string> points;
  writer.set_save_observer([&](std::string_view point) { points.emplace_back(point); });
  writer.save(sample_checkpoint(1), false);
  EXPECT_THAT(points, ElementsAre("begin", "rank_file", "model_file", "state_file", "before_manifest", "before_rename",
                                  "after_rename", "before_prune", "done"));
}

TEST_F(Writer, RefusesSenselessArguments) {
  EXPECT_THROW(lone_writer(folder(), 0), std::invalid_argument);
  EXPECT_THROW(lone_writer(folder()).save(sample_checkpoint(-1), false), std::invalid_argument);
}

TEST_F(Writer, FailsWithTheFileAndTheCause) {
  write_bytes(file("checkpoints"), "a file in its place");
  auto writer = lone_writer(folder());
  EXPECT_THAT(user_error_of([&] { writer.save(sample_checkpoint(1), false); }),
              AllOf(HasSubstr("step 1: "), HasSubstr("checkpoints"), HasSubstr("Not a directory")));
}

TEST_F(Writer, LeavesNothingOfATensorThatCannotBeSaved) {
  auto writer = lone_writer(folder());
  auto bad = sample_checkpoint(2);
  bad.optimizer["broken"] = at::Tensor();
  EXPECT_THAT(user_error_of([&] { writer.save(bad, false); }), HasSubstr("\"broken\""));
  EXPECT_THAT(names(), ElementsAre());
  writer.save(sample_checkpoint(2), false);  // the same step again
  EXPECT_EQ(newest().step, 2);
}

// As on nodes that share no file system: the others' folder is an empty one, and stays it.
TEST_F(Writer, TheFirstRankWritesForAll) {
  std::filesystem::create_directory(file("elsewhere"));
  on_ranks(4, [&](const CheckpointWriter::Ranks& ranks) {
    const bool is_rank_zero = ranks.rank == 0;
    CheckpointWriter writer(is_rank_zero ? folder() : file("elsewhere"), 2, ranks);
    for (const int64_t step : {1, 2, 3})
      writer.save(is_rank_zero ? sample_checkpoint(step, 4) : Checkpoint{step}, step == 1);
  });
  EXPECT_TRUE(std::filesystem::is_empty(file("elsewhere")));
  EXPECT_THAT(names(), ElementsAre("best", "last", "step_00000001", "step_00000002", "step_00000003"));
  EXPECT_TRUE(same(newest(), sample_checkpoint(3, 4)));
  EXPECT_EQ(verify_checkpoint(path_of(3)).world_size, 4);
}

TEST_F(Writer, RanksThatHavePartsWriteTheFilesOfOneThatHasAll) {
  const auto whole = rich_checkpoint(2, 4);
  on_ranks(4, [&](const CheckpointWriter::Ranks& ranks) {
    CheckpointWriter(folder(), 2, ranks).save(part_of(whole, ranks.rank, 4), true);
  });
  EXPECT_TRUE(same(newest(), whole));
  std::filesystem::create_directory(file("alone"));
  on_ranks(4, [&](const CheckpointWriter::Ranks& ranks) {
    CheckpointWriter(file("alone"), 2, ranks).save(ranks.rank == 0 ? whole : Checkpoint{2}, true);
  });
  const auto other = checkpoints_folder(file("alone")) / checkpoint_name(2);
  for (const auto* name : {kManifestFile, kModelFile, kAverageFile, kOptimizerFile})
    EXPECT_EQ(read_bytes(path_of(2) / name), read_bytes(other / name)) << name;
}

// As where some nodes do not see the run's folder, whose parts rank 0 has.
TEST_F(Writer, ARankWithoutAPartMayBeElsewhere) {
  std::filesystem::create_directory(file("elsewhere"));
  const auto whole = rich_checkpoint(1, 3);
  on_ranks(3, [&](const CheckpointWriter::Ranks& ranks) {
    auto part = part_of(whole, std::min<int64_t>(ranks.rank, 1), 2);
    if (ranks.rank == 2) {
      for (auto* own : {&part.optimizer, &part.average}) own->clear();
      part.optimizer_elsewhere = part_of(whole, 1, 1).optimizer_elsewhere;
      part.average_elsewhere = part_of(whole, 1, 1).average_elsewhere;
    }
    CheckpointWriter(ranks.rank == 2 ? file("elsewhere") : folder(), 2, ranks).save(part, false);
  });
  EXPECT_TRUE(std::filesystem::is_empty(file("elsewhere")));
  EXPECT_TRUE(same(newest(), whole));
}

// Nothing of step 2 may stay, whichever rank fails wherever.
TEST_F(Writer, AFailureOfAnyRankThatWritesIsAnErrorOnAll) {
  for (const auto& [rank, point] : {std::pair(0, "created"), std::pair(0, "own_part"), std::pair(1, "own_part"),
                                    std::pair(2, "own_part"), std::pair(0, "compared")}) {
    SCOPED_TRACE(point);
    on_ranks(3, [&, rank = rank, point = point](const CheckpointWriter::Ranks& ranks) {
      CheckpointWriter writer(folder(), 3, ranks);
      writer.save(part_of(rich_checkpoint(1, 3), ranks.rank, 3), true);
      writer.set_save_observer([&](std::string_view reached) {
        if (ranks.rank == rank && reached == point) throw std::runtime_error("the power is out");
      });
      EXPECT_THAT(user_error_of([&] { writer.save(part_of(rich_checkpoint(2, 3), ranks.rank, 3), true); }),
                  AllOf(HasSubstr("step 2"), HasSubstr("the power is out")));
    });
    EXPECT_THAT(names(), ElementsAre("best", "last", "step_00000001"));
    EXPECT_TRUE(same(newest(), rich_checkpoint(1, 3)));
  }
}

TEST_F(Writer, APartThatIsSpoiledBeforeItCountsIsAnErrorOnAll) {
  on_ranks(2, [&](const CheckpointWriter::Ranks& ranks) {
    CheckpointWriter writer(folder(), 3, ranks);
    writer.set_save_observer([&](std::string_view point) {
      if (point != "own_part" || ranks.rank != 1) return;
      const auto shared = path_of(1).string() + ".tmp/optimizer.safetensors";
      const auto bytes = read_bytes(shared);
      std::fstream file(shared, std::ios::in | std::ios::out | std::ios::binary);  // rank 0 may still write to it
      for (const auto& entry : read_safetensors_header(shared))
        if (entry.name == "bias/mean") file.seekp(static_cast<std::streamoff>(entry.begin)).put(bytes[entry.begin] ^ 1);
    });
    EXPECT_THAT(user_error_of([&] { writer.save(part_of(rich_checkpoint(1, 2), ranks.rank, 2), true); }),
                AllOf(HasSubstr("optimizer.safetensors: the SHA-256 of what rank 1 has written")));
  });
  EXPECT_THAT(names(), ElementsAre());
}

TEST_F(Writer, PassesThePointsOfSharedFilesInOrder) {
  std::map<int64_t, std::vector<std::string>> points;
  std::mutex mutex;
  on_ranks(2, [&](const CheckpointWriter::Ranks& ranks) {
    CheckpointWriter writer(folder(), 3, ranks);
    writer.set_save_observer([&](std::string_view point) {
      const std::scoped_lock lock(mutex);
      points[ranks.rank].emplace_back(point);
    });
    writer.save(part_of(rich_checkpoint(1, 2), ranks.rank, 2), false);
  });
  EXPECT_THAT(points[0],
              ElementsAre("begin", "created", "rank_file", "rank_file", "model_file", "state_file", "own_part",
                          "compared", "before_manifest", "before_rename", "after_rename", "before_prune", "done"));
  EXPECT_THAT(points[1], ElementsAre("begin", "own_part", "done"));
}

// Nothing of step 2 may stay.
TEST_F(Writer, AFailureOfTheFirstRankIsAnErrorOnAll) {
  on_ranks(3, [&](const CheckpointWriter::Ranks& ranks) {
    CheckpointWriter writer(folder(), 3, ranks);
    writer.save(sample_checkpoint(1, 3), true);
    writer.set_save_observer([&](std::string_view point) {
      if (point == "before_rename") throw std::runtime_error("the power is out");
    });
    EXPECT_THAT(user_error_of([&] { writer.save(sample_checkpoint(2, 3), true); }),
                AllOf(HasSubstr("step 2"), HasSubstr("the power is out")));
  });
  EXPECT_THAT(names(), ElementsAre("best", "last", "step_00000001"));
  EXPECT_TRUE(same(newest(), sample_checkpoint(1, 3)));
}

TEST_F(Writer, ARunsFolderThatIsRemovedWhileItIsWrittenToIsTold) {
  auto writer = lone_writer(folder());
  writer.set_save_observer([&](std::string_view point) {
    if (point == "before_manifest") std::filesystem::remove_all(folder());
  });
  EXPECT_THAT(user_error_of([&] { writer.save(sample_checkpoint(1), false); }),
              HasSubstr("the run's folder was removed or moved"));
}

// As where a node is gone: what the collective throws is the launcher's to report, not a failure to save.
TEST_F(Writer, PassesOnWhatAgreeThrows) {
  bool gone = true;
  CheckpointWriter writer(folder(), 3, {0, 1, [&](const std::string& error) {
                                          if (std::exchange(gone, false)) throw std::out_of_range("rank 1 is gone");
                                          return alone(error);
                                        }});
  EXPECT_THROW(writer.save(sample_checkpoint(2), false), std::out_of_range);
  EXPECT_EQ(newest().step, 2);  // whole: nobody else was needed for it
  writer.save(sample_checkpoint(3), false);
  EXPECT_THAT(names(), ElementsAre("last", "step_00000002", "step_00000003"));
}

// As on the way to a file server: what would be read back is not what was written.
TEST_F(Writer, AFileThatIsSpoiledBehindTheWritersBackIsFound) {
  auto writer = lone_writer(folder());
  writer.set_save_observer([&](std::string_view point) {
    const auto own = path_of(1).string() + ".tmp/rank_0.safetensors";
    if (point != "rank_file") return;
    auto bytes = read_bytes(own);
    bytes[bytes.size() / 2] ^= 1;
    write_bytes(own, bytes);
  });
  writer.save(sample_checkpoint(1), false);
  EXPECT_THAT(user_error_of([&] { verify_checkpoint(path_of(1)); }), HasSubstr("rank_0.safetensors: its SHA-256 is"));
}

TEST_F(Writer, TheRowsOfACheckpointAreAwaitedBeforeItCounts) {
  int calls = 0;
  on_ranks(2, [&](const CheckpointWriter::Ranks& ranks) {
    CheckpointWriter(folder(), 3, ranks).save(sample_checkpoint(1, 2), false, [&] {
      EXPECT_FALSE(std::filesystem::exists(path_of(1)));
      ++calls;
    });
  });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(newest().step, 1);
}

TEST_F(Writer, NothingIsWrittenWhereTheRunsFolderIsNoLonger) {
  auto writer = lone_writer(folder());
  const auto away = folder().string() + "_away";
  std::filesystem::rename(folder(), away);
  for (const bool is_replaced : {false, true}) {
    if (is_replaced) std::filesystem::create_directory(folder());
    EXPECT_THAT(user_error_of([&] { writer.save(sample_checkpoint(1), false); }),
                HasSubstr("the run's folder was removed or moved"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder()));
  std::filesystem::remove_all(away);
}

TEST_F(Writer, AnotherWorldSizeGoesOnInTheSameFolder) {
  on_ranks(3, [&](const CheckpointWriter::Ranks& ranks) {
    CheckpointWriter(folder(), 3, ranks).save(sample_checkpoint(1, 3), false);
  });
  lone_writer(folder()).save(sample_checkpoint(2), false);
  EXPECT_EQ(verify_checkpoint(path_of(1)).world_size, 3);
  EXPECT_EQ(verify_checkpoint(path_of(2)).world_size, 1);
}

}  // namespace
}  // namespace ddprun
