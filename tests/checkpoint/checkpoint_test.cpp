// SPDX-License-Identifier: MIT
// What makes a folder a checkpoint, and every damage that makes it none.
#include "checkpoint/checkpoint.h"

#include "checkpoint/checkpoint_fixture.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class CheckpointOnDisk : public CheckpointTest {
 protected:
  CheckpointOnDisk() : path_(lone_writer(folder()).save(sample_checkpoint(100), false)) {}

  std::string problem() const {
    return user_error_of([&] { verify_checkpoint(path_); });
  }
  std::vector<std::string> files() const {
    return {kModelFile, kOptimizerFile, kStateFile, rank_file(0), kManifestFile};
  }

  // Changes the manifest's text; its own digest is not corrected.
  void edit_manifest(const std::string& from, const std::string& to) const {
    auto text = read_bytes(path_ / kManifestFile);
    const auto at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from << " in " << text;
    write_bytes(path_ / kManifestFile, text.replace(at, from.size(), to));
  }

  std::filesystem::path path_;
};

TEST_F(CheckpointOnDisk, ComesBackAsItWas) {
  const auto info = verify_checkpoint(path_);
  EXPECT_EQ(info.step, 100);
  EXPECT_EQ(info.world_size, 1);
  EXPECT_TRUE(same(read_checkpoint(info), sample_checkpoint(100)));
}

TEST_F(CheckpointOnDisk, IsFoundThroughItsLinks) {
  EXPECT_EQ(verify_checkpoint(folder() / "checkpoints" / "last").path, std::filesystem::canonical(path_));
}

TEST_F(CheckpointOnDisk, MayBeCopiedUnderAnotherName) {
  std::filesystem::copy(path_, file("my_best"));
  EXPECT_EQ(verify_checkpoint(file("my_best")).step, 100);
}

TEST_F(CheckpointOnDisk, MayNotTakeAnotherStepsName) {
  const auto other = path_.parent_path() / "step_00000200";
  std::filesystem::rename(path_, other);
  EXPECT_THAT(user_error_of([&] { verify_checkpoint(other); }), HasSubstr("step 100"));
}

TEST_F(CheckpointOnDisk, IsNoneWhereAFileIsCutShort) {
  for (const auto& name : files()) {
    const auto bytes = read_bytes(path_ / name);
    for (size_t size = 0; size < bytes.size(); size += 64) {
      write_bytes(path_ / name, bytes.substr(0, size));
      ASSERT_THAT(problem(), HasSubstr(name)) << size;
    }
    write_bytes(path_ / name, bytes + "x");
    EXPECT_THAT(problem(), HasSubstr(name));
    write_bytes(path_ / name, bytes);
  }
  EXPECT_NO_THROW(verify_checkpoint(path_));
}

TEST_F(CheckpointOnDisk, IsNoneWhereABitIsFlipped) {
  for (const auto& name : files()) {
    const auto bytes = read_bytes(path_ / name);
    for (size_t bit = 0; bit < bytes.size() * 8; bit += 131) {
      auto flipped = bytes;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
      write_bytes(path_ / name, flipped);
      ASSERT_THAT(problem(), HasSubstr(name)) << "bit " << bit;
    }
    write_bytes(path_ / name, bytes);
  }
  EXPECT_NO_THROW(verify_checkpoint(path_));
}

TEST_F(CheckpointOnDisk, IsNoneWhereAFileIsMissing) {
  for (const auto& name : files()) {
    const auto bytes = read_bytes(path_ / name);
    std::filesystem::remove(path_ / name);
    EXPECT_THAT(problem(), AllOf(HasSubstr(name), HasSubstr("No such file")));
    write_bytes(path_ / name, bytes);
  }
}

TEST_F(CheckpointOnDisk, TellsBothDigestsOfADamagedFile) {
  auto bytes = read_bytes(path_ / kModelFile);
  bytes.back() ^= 1;
  write_bytes(path_ / kModelFile, bytes);
  EXPECT_THAT(problem(), AllOf(HasSubstr(digest_of(path_ / kModelFile).sha256.substr(0, 12)),
                               HasSubstr(read_manifest(path_).files.at(kModelFile).sha256.substr(0, 12))));
}

TEST_F(CheckpointOnDisk, SaysThatItsFormatIsNewer) {
  edit_manifest("\"format\": 2", "\"format\": 3");
  EXPECT_THAT(problem(), HasSubstr("use a newer ddprun"));
}

TEST_F(CheckpointOnDisk, HasTheFirstFormatIfItLeavesNothingOut) {
  const auto whole = lone_writer(folder()).save(sample_checkpoint(101), false);
  EXPECT_THAT(read_bytes(whole / kManifestFile), HasSubstr("\"format\": 1"));
  EXPECT_FALSE(verify_checkpoint(whole).left_out);
  EXPECT_EQ(verify_checkpoint(path_).left_out, sample_checkpoint(100).left_out);
}

TEST_F(CheckpointOnDisk, KeepsWhatItLeavesOutWhenItBecomesTheBest) {
  auto writer = lone_writer(folder());
  for (const bool best : {false, true}) writer.save(sample_checkpoint(102), best);
  const auto manifest = read_manifest(path_.parent_path() / "step_00000102");
  EXPECT_TRUE(manifest.best);
  EXPECT_EQ(manifest.left_out, sample_checkpoint(102).left_out);
}

TEST_F(CheckpointOnDisk, RefusesAManifestThatLeavesOutNothingOrCannotSayWhat) {
  auto manifest = read_manifest(path_);
  manifest.left_out->tensors = 0;
  write_manifest(path_, manifest);
  EXPECT_THAT(problem(), HasSubstr("what it says of the weights that it leaves out is out of range"));
}

TEST_F(CheckpointOnDisk, MistrustsAManifestThatWasEdited) {
  edit_manifest("\"step\": 100", "\"step\": 101");
  EXPECT_THAT(problem(), HasSubstr("its own SHA-256"));
}

TEST_F(CheckpointOnDisk, RefusesAManifestThatNamesOtherFiles) {
  const auto refuses = [&](Manifest manifest, const std::string& said) {
    write_manifest(path_, manifest);
    EXPECT_THAT(problem(), HasSubstr(said));
  };
  const auto good = read_manifest(path_);
  auto changed = good;
  changed.files["../../secret"] = changed.files.at(kModelFile);
  refuses(changed, "lists 5 files");
  changed.files.erase(kOptimizerFile);
  refuses(changed, "does not list optimizer.safetensors");
  changed = good;
  changed.world_size = 1'000'000'000'000;
  refuses(changed, "world size");
  changed.world_size = 0;
  refuses(changed, "out of range");
}

using NewestCheckpoint = CheckpointTest;

TEST_F(NewestCheckpoint, IsNoneInAnEmptyRun) {
  std::vector<CheckpointFlaw> flaws;
  EXPECT_FALSE(newest_checkpoint(folder(), flaws));
  std::filesystem::create_directory(file("checkpoints"));
  EXPECT_FALSE(newest_checkpoint(folder(), flaws));
  EXPECT_FALSE(newest_checkpoint(file("no/such/run"), flaws));
  EXPECT_TRUE(flaws.empty());
}

TEST_F(NewestCheckpoint, SaysWhereItCannotLook) {
  write_bytes(file("checkpoints"), "a file");
  std::vector<CheckpointFlaw> flaws;
  EXPECT_THAT(user_error_of([&] { newest_checkpoint(folder(), flaws); }), HasSubstr("Not a directory"));
}

TEST_F(NewestCheckpoint, IsTheGreatestStepNotTheLastInTheAlphabet) {
  auto writer = lone_writer(folder(), 9);
  for (const int64_t step : {99'999'999, 100'000'000, 2}) writer.save(sample_checkpoint(step), false);
  std::vector<CheckpointFlaw> flaws;
  EXPECT_EQ(newest_checkpoint(folder(), flaws)->step, 100'000'000);
  EXPECT_EQ(checkpoint_steps(folder()), (std::vector<int64_t>{2, 99'999'999, 100'000'000}));
}

TEST_F(NewestCheckpoint, PassesOverBrokenOnesAndTellsThem) {
  auto writer = lone_writer(folder(), 9);
  for (const int64_t step : {1, 2, 3, 4}) writer.save(sample_checkpoint(step), false);
  const auto folder_of = [&](int64_t step) { return checkpoints_folder(folder()) / checkpoint_name(step); };
  std::filesystem::remove(folder_of(4) / kManifestFile);
  write_bytes(folder_of(3) / kModelFile, "nonsense");

  std::vector<CheckpointFlaw> flaws;
  EXPECT_EQ(newest_checkpoint(folder(), flaws)->step, 2);
  ASSERT_EQ(flaws.size(), 2U);
  EXPECT_EQ(flaws[0].path, folder_of(4));
  EXPECT_THAT(flaws[0].problem, HasSubstr(kManifestFile));
  EXPECT_THAT(flaws[1].problem, HasSubstr(kModelFile));
}

TEST_F(NewestCheckpoint, IgnoresOtherNames) {
  lone_writer(folder()).save(sample_checkpoint(1), false);
  const auto checkpoints = checkpoints_folder(folder());
  for (const char* name : {"step_00000009.tmp", "step_9", "step_-0000009", "step_00000009.broken", "step_", "notes",
                           "step_99999999999999999999999", "step_0000000x"}) {
    std::filesystem::copy(checkpoints / "step_00000001", checkpoints / name);
  }
  write_bytes(checkpoints / "step_00000008", "a file");
  std::vector<CheckpointFlaw> flaws;
  EXPECT_EQ(newest_checkpoint(folder(), flaws)->step, 1);
  EXPECT_TRUE(flaws.empty());
}

}  // namespace
}  // namespace ddprun
