// SPDX-License-Identifier: MIT
#include "checkpoint/checkpoint_writer.h"

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_fixture.h"

#include <fstream>
#include <map>
#include <mutex>
#include <stdexcept>

namespace ddprun {
namespace {

using Ranks = CheckpointWriter::Ranks;

class Writer : public CheckpointTest {
 protected:
  std::string link(const char* name) const {
    return std::filesystem::read_symlink(checkpoints_folder(folder()) / name);
  }
  Checkpoint read_newest() const {
    const auto info = newest();
    return info ? read_checkpoint(*info) : Checkpoint{.step = -1};
  }
};

std::string save_problem(CheckpointWriter& writer, const Checkpoint& checkpoint, bool best = false) {
  return error_of([&] { writer.save(checkpoint, best); });
}

TEST_F(Writer, WritesTheFilesOfTheDesign) {
  EXPECT_EQ(lone_writer(folder()).save(sample_checkpoint(1200), true), path_of(1200));
  EXPECT_EQ(names(), "best last step_00001200");
  EXPECT_EQ(names_in(path_of(1200)),
            "manifest.json model.safetensors optimizer.safetensors rank_0.safetensors state.json");
}

TEST_F(Writer, KeepsTheNewestAndTheBestAndPointsAtThemByRelativeLinks) {
  auto writer = lone_writer(folder(), 2);
  writer.save(sample_checkpoint(1), false);
  EXPECT_EQ(names(), "last step_00000001");
  for (const int64_t step : {2, 3, 4, 5, 6}) writer.save(sample_checkpoint(step), step == 2);
  EXPECT_EQ(names(), "best last step_00000002 step_00000005 step_00000006");
  EXPECT_EQ(link("last") + link("best"), "step_00000006step_00000002");
  std::filesystem::remove(checkpoints_folder(folder()) / "best");  // it is found again without its link
  writer.save(sample_checkpoint(7), false);
  EXPECT_EQ(link("best"), "step_00000002");
  writer.save(sample_checkpoint(8), true);
  EXPECT_EQ(names(), "best last step_00000007 step_00000008");
  EXPECT_EQ(link("best"), "step_00000008");
  writer.save(sample_checkpoint(3), false);  // resumed from an earlier one: the later steps are not its own
  EXPECT_EQ(names(), "best last step_00000003 step_00000007 step_00000008");
  EXPECT_EQ(link("last"), "step_00000003");
}

TEST_F(Writer, KeepsWhatIsBeingReadUntilALaterSave) {
  auto writer = lone_writer(folder(), 1);
  std::optional read = verify_checkpoint(writer.save(sample_checkpoint(1), false));
  writer.save(sample_checkpoint(2), false);
  EXPECT_EQ(names(), "last step_00000001 step_00000002");
  read.reset();
  writer.save(sample_checkpoint(3), false);
  EXPECT_EQ(names(), "last step_00000003");
}

TEST_F(Writer, OfTheSameStepKeepsAWholeCheckpointAndReplacesABrokenOne) {
  lone_writer(folder()).save(sample_checkpoint(4), false);
  auto other = sample_checkpoint(4);
  other.progress = "another";
  lone_writer(folder()).save(other, false);
  EXPECT_TRUE(same(read_newest(), sample_checkpoint(4)));
  write(path_of(4) / kModelFile, "nonsense");
  lone_writer(folder()).save(other, false);
  EXPECT_TRUE(same(read_newest(), other));
  EXPECT_EQ(names(), "last step_00000004");
  for (const bool best : {false, true}) lone_writer(folder(), 1).save(sample_checkpoint(5), best);
  EXPECT_EQ(names(), "best last step_00000005") << "it becomes the best later";
  EXPECT_EQ(link("best"), "step_00000005");
}

TEST_F(Writer, RemovesWhatCutOffSavesLeft) {
  for (const auto& left : {path_of(3).string() + ".tmp", path_of(4).string() + ".tmp/deep",
                           path_of(5).string() + ".broken", (checkpoints_folder(folder()) / "mine.tmp").string()})
    std::filesystem::create_directories(left);
  for (const char* link : {"last-12.tmp", "best-3.tmp"})
    std::filesystem::create_symlink("step_00000003", checkpoints_folder(folder()) / link);
  lone_writer(folder()).save(sample_checkpoint(4), false);
  EXPECT_EQ(names(), "last mine.tmp step_00000004");
}

// The last save of a run was cut off between its name and its links, so the resumed run has nothing to save.
TEST_F(Writer, AResumedRunPointsTheLinksAtItsCheckpoint) {
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
  EXPECT_TRUE(writer.warnings().empty());
  std::filesystem::remove(checkpoints_folder(folder()) / "last");
  std::filesystem::create_directories(checkpoints_folder(folder()) / "last");  // where the link should stand
  writer.save(sample_checkpoint(2), false);
  ASSERT_EQ(writer.warnings().size(), 1U);
  EXPECT_TRUE(says(writer.warnings()[0], "last"));
  EXPECT_EQ(newest()->step, 2);
}

TEST_F(Writer, RefusesSenselessArgumentsAndFailsWithTheFileAndTheCause) {
  EXPECT_THROW(lone_writer(folder(), 0), std::invalid_argument);
  write(file("checkpoints"), "a file in its place");
  auto writer = lone_writer(folder());
  EXPECT_THROW(writer.save(sample_checkpoint(-1), false), std::invalid_argument);
  EXPECT_TRUE(says(save_problem(writer, sample_checkpoint(1)), "step 1: ... checkpoints ... Not a directory"));
  std::filesystem::remove(file("checkpoints"));
  auto bad = sample_checkpoint(2);
  bad.optimizer["broken"] = at::Tensor();
  EXPECT_TRUE(says(save_problem(writer, bad), "\"broken\""));
  EXPECT_EQ(names(), "");
  writer.save(sample_checkpoint(2), false);  // the same step again
  EXPECT_EQ(newest()->step, 2);
}

// As on nodes that share no file system: the others' folder is an empty one, and stays it.
TEST_F(Writer, TheFirstRankWritesForAll) {
  std::filesystem::create_directory(file("elsewhere"));
  int calls = 0;
  on_ranks(4, [&](const Ranks& ranks) {
    const bool is_rank_zero = ranks.rank == 0;
    CheckpointWriter writer(is_rank_zero ? folder() : file("elsewhere"), 2, ranks);
    for (const int64_t step : {1, 2, 3}) {
      writer.save(is_rank_zero ? sample_checkpoint(step, 4) : Checkpoint{step}, step == 1, [&] {
        EXPECT_FALSE(std::filesystem::exists(path_of(step))) << "its rows are awaited before it counts";
        ++calls;
      });
    }
  });
  EXPECT_EQ(calls, 3);
  EXPECT_TRUE(std::filesystem::is_empty(file("elsewhere")));
  EXPECT_EQ(names(), "best last step_00000001 step_00000002 step_00000003");
  EXPECT_TRUE(same(read_newest(), sample_checkpoint(3, 4)));
  lone_writer(folder()).save(sample_checkpoint(4), false);  // another world, in the same folder
  EXPECT_EQ(verify_checkpoint(path_of(3)).world_size, 4);
  EXPECT_EQ(verify_checkpoint(path_of(4)).world_size, 1);
}

TEST_F(Writer, RanksThatHavePartsWriteTheFilesOfOneThatHasAll) {
  const auto whole = rich_checkpoint(2, 4);
  on_ranks(4,
           [&](const Ranks& ranks) { CheckpointWriter(folder(), 2, ranks).save(part_of(whole, ranks.rank, 4), true); });
  EXPECT_TRUE(same(read_newest(), whole));
  std::filesystem::create_directory(file("alone"));
  on_ranks(4, [&](const Ranks& ranks) {
    CheckpointWriter(file("alone"), 2, ranks).save(ranks.rank == 0 ? whole : Checkpoint{2}, true);
  });
  const auto other = checkpoints_folder(file("alone")) / checkpoint_name(2);
  for (const auto* name : {kManifestFile, kModelFile, kAverageFile, kOptimizerFile})
    EXPECT_EQ(read(path_of(2) / name), read(other / name)) << name;
}

// As where some nodes do not see the run's folder, whose parts rank 0 has.
TEST_F(Writer, ARankWithoutAPartMayBeElsewhere) {
  std::filesystem::create_directory(file("elsewhere"));
  const auto whole = rich_checkpoint(1, 3);
  on_ranks(3, [&](const Ranks& ranks) {
    auto part = part_of(whole, std::min<int64_t>(ranks.rank, 1), 2);
    if (ranks.rank == 2) {
      for (auto* own : {&part.optimizer, &part.average}) own->clear();
      part.optimizer_elsewhere = part_of(whole, 1, 1).optimizer_elsewhere;
      part.average_elsewhere = part_of(whole, 1, 1).average_elsewhere;
    }
    CheckpointWriter(ranks.rank == 2 ? file("elsewhere") : folder(), 2, ranks).save(part, false);
  });
  EXPECT_TRUE(std::filesystem::is_empty(file("elsewhere")));
  EXPECT_TRUE(same(read_newest(), whole));
}

// Nothing of step 2 may stay, whichever rank fails wherever, of those that write a part or of the one that writes all.
TEST_F(Writer, AFailureOfAnyRankThatWritesIsAnErrorOnAll) {
  for (const auto& [rank, point, shared] : {std::tuple(0, "created", true),
                                            {0, "own_part", true},
                                            {1, "own_part", true},
                                            {2, "own_part", true},
                                            {0, "compared", true},
                                            {0, "before_rename", false}}) {
    SCOPED_TRACE(point);
    std::filesystem::remove_all(checkpoints_folder(folder()));
    on_ranks(3, [&, rank = rank, point = point, shared = shared](const Ranks& ranks) {
      const auto own = [&](int64_t step) {
        return shared ? part_of(rich_checkpoint(step, 3), ranks.rank, 3) : rich_checkpoint(step, 3);
      };
      CheckpointWriter writer(folder(), 3, ranks);
      writer.save(own(1), true);
      writer.set_save_observer([&](std::string_view reached) {
        if (ranks.rank == rank && reached == point) throw std::runtime_error("the power is out");
      });
      EXPECT_TRUE(says(save_problem(writer, own(2), true), "step 2 ... the power is out"));
    });
    EXPECT_EQ(names(), "best last step_00000001");
    EXPECT_TRUE(same(read_newest(), rich_checkpoint(1, 3)));
  }
}

TEST_F(Writer, APartThatIsSpoiledBeforeItCountsIsAnErrorOnAll) {
  on_ranks(2, [&](const Ranks& ranks) {
    CheckpointWriter writer(folder(), 3, ranks);
    writer.set_save_observer([&](std::string_view point) {
      if (point != "own_part" || ranks.rank != 1) return;
      const auto shared = path_of(1).string() + ".tmp/optimizer.safetensors";
      const auto bytes = read(shared);
      std::fstream file(shared, std::ios::in | std::ios::out | std::ios::binary);  // rank 0 may still write to it
      for (const auto& entry : read_safetensors_header(shared))
        if (entry.name == "bias/mean") file.seekp(static_cast<std::streamoff>(entry.begin)).put(bytes[entry.begin] ^ 1);
    });
    EXPECT_TRUE(says(save_problem(writer, part_of(rich_checkpoint(1, 2), ranks.rank, 2), true),
                     "optimizer.safetensors: the SHA-256 of what rank 1 has written"));
  });
  EXPECT_EQ(names(), "");
}

TEST_F(Writer, PassesItsPointsInOrder) {
  std::map<int64_t, std::string> points;
  std::mutex mutex;
  const auto save = [&](CheckpointWriter writer, int64_t rank, const Checkpoint& checkpoint) {
    writer.set_save_observer([&, rank](std::string_view point) {
      const std::scoped_lock lock(mutex);
      points[rank] += std::string(point) + " ";
    });
    writer.save(checkpoint, false);
  };
  save(lone_writer(folder()), 7, sample_checkpoint(1));
  EXPECT_EQ(points[7],
            "begin rank_file model_file state_file before_manifest before_rename after_rename before_prune done ");
  on_ranks(2, [&](const Ranks& ranks) {
    save(CheckpointWriter(folder(), 3, ranks), ranks.rank, part_of(rich_checkpoint(2, 2), ranks.rank, 2));
  });
  EXPECT_EQ(points[0],
            "begin created rank_file rank_file model_file state_file own_part compared before_manifest before_rename "
            "after_rename before_prune done ");
  EXPECT_EQ(points[1], "begin own_part done ");
}

TEST_F(Writer, ARunsFolderThatIsRemovedOrReplacedIsNamedAndNothingIsWritten) {
  const auto gone = "the run's folder was removed or moved";
  auto writer = lone_writer(folder());
  const auto away = folder().string() + "_away";
  std::filesystem::rename(folder(), away);
  for (const bool is_replaced : {false, true}) {
    if (is_replaced) std::filesystem::create_directory(folder());
    EXPECT_TRUE(says(save_problem(writer, sample_checkpoint(1)), gone));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder()));
  std::filesystem::remove_all(away);
  auto later = lone_writer(folder());
  later.set_save_observer([&](std::string_view point) {
    if (point == "before_manifest") std::filesystem::remove_all(folder());
  });
  EXPECT_TRUE(says(save_problem(later, sample_checkpoint(1)), gone)) << "while it is written to";
}

// As where a node is gone: what the collective throws is the launcher's to report, not a failure to save.
TEST_F(Writer, PassesOnWhatAgreeThrows) {
  bool gone = true;
  CheckpointWriter writer(folder(), 3, {0, 1, [&](const std::string& error) {
                                          if (std::exchange(gone, false)) throw std::out_of_range("rank 1 is gone");
                                          return error;
                                        }});
  EXPECT_THROW(writer.save(sample_checkpoint(2), false), std::out_of_range);
  EXPECT_EQ(newest()->step, 2);  // whole: nobody else was needed for it
  writer.save(sample_checkpoint(3), false);
  EXPECT_EQ(names(), "last step_00000002 step_00000003");
}

// As on the way to a file server: what would be read back is not what was written.
TEST_F(Writer, AFileThatIsSpoiledBehindTheWritersBackIsFound) {
  auto writer = lone_writer(folder());
  writer.set_save_observer([&](std::string_view point) {
    const auto own = path_of(1).string() + ".tmp/rank_0.safetensors";
    if (point != "rank_file") return;
    auto bytes = read(own);
    bytes[bytes.size() / 2] ^= 1;
    write(own, bytes);
  });
  writer.save(sample_checkpoint(1), false);
  EXPECT_TRUE(says(error_of([&] { verify_checkpoint(path_of(1)); }), "rank_0.safetensors: its SHA-256 is"));
}

}  // namespace
}  // namespace ddprun
