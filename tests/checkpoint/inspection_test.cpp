// SPDX-License-Identifier: MIT
#include "checkpoint/inspection.h"

#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_fixture.h"

#include <atomic>
#include <thread>

namespace ddprun {
namespace {

// A run of three checkpoints, the second the best.
class Inspection : public CheckpointTest {
 protected:
  Inspection() {
    auto writer = lone_writer(folder());
    for (const int64_t step : {1, 2, 3}) writer.save(sample_checkpoint(step), step == 2);
  }

  // "model.safetensors torn, ..." of that checkpoint, the others being good.
  std::string flaws_of(int64_t step) const {
    std::string flaws;
    for (const auto& checkpoint : inspect_run(folder()).checkpoints) {
      for (const auto& flaw : checkpoint.flaws) {
        EXPECT_EQ(checkpoint.step, step) << flaw.file << ": " << flaw.problem;
        flaws += (flaws.empty() ? "" : ", ") + flaw.file + " " + flaw.kind;
      }
    }
    return flaws;
  }

  static void flip(const std::filesystem::path& file, size_t place) {
    auto bytes = read(file);
    bytes.at(place) = static_cast<char>(bytes[place] ^ 1);
    write(file, bytes);
  }
};

TEST_F(Inspection, AWholeRunHasNoFlawAndSaysWhereItsLinksPoint) {
  const auto report = inspect_run(folder());
  EXPECT_TRUE(report.good());
  ASSERT_EQ(report.checkpoints.size(), 3U);
  EXPECT_EQ(report.last, "step_00000003");
  EXPECT_EQ(report.best, "step_00000002");
  const auto& first = report.checkpoints[0];
  EXPECT_EQ(first.step, 1);
  EXPECT_EQ(first.world_size, 1);
  EXPECT_FALSE(first.left_out);
  EXPECT_EQ(report.checkpoints[1].left_out, sample_checkpoint(2).left_out);
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path_of(1))) bytes += entry.file_size();
  EXPECT_EQ(first.bytes, bytes);
  EXPECT_NEAR(static_cast<double>(first.saved), static_cast<double>(std::time(nullptr)), 60);
}

TEST_F(Inspection, WhatIsNotThereIsRemovedAndNotBroken) {
  const auto report = inspect_run(folder() / "nowhere");
  EXPECT_TRUE(report.good());
  EXPECT_TRUE(report.checkpoints.empty());
  const auto gone = inspect_checkpoint(path_of(9));
  EXPECT_TRUE(gone.removed);
  EXPECT_TRUE(gone.good());
}

TEST_F(Inspection, NamesEachFlawOfAFile) {
  flip(path_of(2) / kModelFile, 200);
  std::filesystem::resize_file(path_of(2) / kOptimizerFile, 100);
  std::filesystem::remove(path_of(2) / rank_file(0));
  write(path_of(2) / "notes.txt", "mine");
  EXPECT_EQ(flaws_of(2),
            "model.safetensors flipped, optimizer.safetensors torn, rank_0.safetensors missing, notes.txt unknown");
  EXPECT_FALSE(inspect_run(folder()).good());
}

TEST_F(Inspection, EveryFlippedBitOfEveryFileIsSeen) {
  for (const auto& name :
       {std::string(kModelFile), std::string(kOptimizerFile), std::string(kStateFile), rank_file(0)}) {
    const auto whole = read(path_of(1) / name);
    for (size_t place = 0; place < whole.size(); place += 97) {
      flip(path_of(1) / name, place);
      EXPECT_EQ(flaws_of(1), name + " flipped") << place;
      write(path_of(1) / name, whole);
    }
  }
}

TEST_F(Inspection, AFileThatGrewOneThatIsNoneAndAFolderInItsPlaceAreFlaws) {
  const auto model = path_of(1) / kModelFile;
  write(model, read(model) + "more");
  EXPECT_EQ(flaws_of(1), "model.safetensors too long");
  auto manifest = read_manifest(path_of(1));
  write(model, "no safetensors file");
  manifest.files[kModelFile] = digest_of(model);
  write_manifest(path_of(1), manifest);
  EXPECT_EQ(flaws_of(1), "model.safetensors unreadable") << "as the manifest says";
  std::filesystem::remove(model);
  std::filesystem::create_directory(model);
  EXPECT_EQ(flaws_of(1), "model.safetensors unreadable");
}

TEST_F(Inspection, ADamagedMissingOrAnothersManifestIsAFlaw) {
  flip(path_of(3) / kManifestFile, 60);
  EXPECT_EQ(flaws_of(3), "manifest.json damaged");
  std::filesystem::remove(path_of(3) / kManifestFile);
  EXPECT_EQ(flaws_of(3), "manifest.json missing");
  std::filesystem::rename(path_of(1), path_of(7));
  const auto report = inspect_checkpoint(path_of(7));
  ASSERT_EQ(report.flaws.size(), 1U);
  EXPECT_EQ(report.flaws[0].problem, "it says step 1");
}

TEST_F(Inspection, WhatASaveLeftIsNoFlawButALinkThatLeadsNowhereIs) {
  for (const auto* left : {"step_00000004.tmp", "step_00000002.broken"})
    std::filesystem::create_directory(checkpoints_folder(folder()) / left);
  EXPECT_TRUE(inspect_run(folder()).good());
  EXPECT_EQ(inspect_run(folder()).leftovers, (std::vector<std::string>{"step_00000002.broken", "step_00000004.tmp"}));
  std::filesystem::remove_all(path_of(2));
  EXPECT_FALSE(inspect_run(folder()).good());
  EXPECT_EQ(inspect_run(folder()).dangling, std::vector<std::string>{"best"});
}

TEST_F(Inspection, ARunThatSavesAndPrunesMeanwhileHasNoFlaw) {
  std::atomic<bool> over = false;
  std::jthread training([&] {
    auto writer = lone_writer(folder(), 1);
    for (int64_t step = 4; step < 150; ++step) writer.save(sample_checkpoint(step), step % 10 == 0);
    over = true;
  });
  while (!over) {
    const auto report = inspect_run(folder());
    for (const auto& checkpoint : report.checkpoints) {
      for (const auto& flaw : checkpoint.flaws) ADD_FAILURE() << checkpoint.name << " " << flaw.file << flaw.problem;
    }
    EXPECT_TRUE(report.dangling.empty());
  }
}

}  // namespace
}  // namespace ddprun
