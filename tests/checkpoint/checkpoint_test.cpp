// SPDX-License-Identifier: MIT
// What makes a folder a checkpoint, and every damage that makes it none.
#include "checkpoint/checkpoint.h"

#include "checkpoint/checkpoint_fixture.h"

namespace ddprun {
namespace {

class CheckpointOnDisk : public CheckpointTest {
 protected:
  std::string problem() const {
    return error_of([&] { verify_checkpoint(path_); });
  }

  // What is said where a file has other bytes.
  std::string problem_with(const std::string& name, const std::string& bytes) const {
    const auto good = read(path_ / name);
    write(path_ / name, bytes);
    const auto text = problem();
    write(path_ / name, good);
    return text;
  }

  const std::filesystem::path path_ = lone_writer(folder()).save(sample_checkpoint(100), false);
  const std::vector<std::string> files_{kModelFile, kOptimizerFile, kStateFile, rank_file(0), kManifestFile};
};

TEST_F(CheckpointOnDisk, ComesBackAsItWasByItsLinkAndUnderAnotherNameButNotAnotherSteps) {
  const auto info = verify_checkpoint(path_);
  EXPECT_EQ(info.step, 100);
  EXPECT_EQ(info.world_size, 1);
  EXPECT_TRUE(same(read_checkpoint(info), sample_checkpoint(100)));
  EXPECT_EQ(verify_checkpoint(folder() / "checkpoints" / "last").path, std::filesystem::canonical(path_));
  std::filesystem::copy(path_, file("my_best"));
  EXPECT_EQ(verify_checkpoint(file("my_best")).step, 100);
  std::filesystem::rename(path_, path_of(200));
  EXPECT_TRUE(says(error_of([&] { verify_checkpoint(path_of(200)); }), "step 100"));
}

TEST_F(CheckpointOnDisk, IsNoneWhereAFileIsCutShortLongerFlippedOrMissing) {
  for (const auto& name : files_) {
    const auto bytes = read(path_ / name);
    for (size_t size = 0; size < bytes.size(); size += 64)
      ASSERT_TRUE(says(problem_with(name, bytes.substr(0, size)), name)) << size;
    EXPECT_TRUE(says(problem_with(name, bytes + "x"), name));
    for (size_t bit = 0; bit < bytes.size() * 8; bit += 131) {
      auto flipped = bytes;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
      ASSERT_TRUE(says(problem_with(name, flipped), name)) << "bit " << bit;
    }
    std::filesystem::remove(path_ / name);
    EXPECT_TRUE(says(problem(), name + " ... No such file"));
    write(path_ / name, bytes);
  }
  EXPECT_EQ(problem(), "");
}

TEST_F(CheckpointOnDisk, SaysBothDigestsOfADamagedFile) {
  auto bytes = read(path_ / kModelFile);
  bytes.back() ^= 1;
  const auto text = problem_with(kModelFile, bytes);
  write(file("damaged"), bytes);
  for (const auto& digest : {digest_of(file("damaged")), read_manifest(path_).files.at(kModelFile)})
    EXPECT_TRUE(says(text, digest.sha256.substr(0, 12)));
}

TEST_F(CheckpointOnDisk, HasTheFirstFormatIfItLeavesNothingOut) {
  const auto whole = lone_writer(folder()).save(sample_checkpoint(101), false);
  EXPECT_TRUE(says(read(whole / kManifestFile), "\"format\": 1"));
  EXPECT_FALSE(verify_checkpoint(whole).left_out);
  EXPECT_EQ(verify_checkpoint(path_).left_out, sample_checkpoint(100).left_out);
  auto writer = lone_writer(folder());
  for (const bool best : {false, true}) writer.save(sample_checkpoint(102), best);
  EXPECT_TRUE(read_manifest(path_of(102)).best);
  EXPECT_EQ(read_manifest(path_of(102)).left_out, sample_checkpoint(102).left_out);
}

TEST_F(CheckpointOnDisk, RefusesAManifestThatIsOfAnotherFormatEditedOrOutOfRange) {
  const auto edited = [&](const std::pair<std::string, std::string>& edit) {
    auto text = read(path_ / kManifestFile);
    EXPECT_NE(text.find(edit.first), std::string::npos);
    return problem_with(kManifestFile, text.replace(text.find(edit.first), edit.first.size(), edit.second));
  };
  expect_refused<std::pair<std::string, std::string>>(edited,
                                                      {{{"\"format\": 2", "\"format\": 3"}, "use a newer ddprun"},
                                                       {{"\"step\": 100", "\"step\": 101"}, "its own SHA-256"}});
  const auto good = read_manifest(path_);
  expect_refused<std::function<void(Manifest&)>>(
      [&](const auto& change) {
        auto manifest = good;
        change(manifest);
        write_manifest(path_, manifest);
        return problem();
      },
      {{[](Manifest& one) { one.files["../../secret"] = one.files.at(kModelFile); }, "lists 5 files"},
       {[](Manifest& one) {
          one.files["../../secret"] = one.files.at(kModelFile);
          one.files.erase(kOptimizerFile);
        },
        "does not list optimizer.safetensors"},
       {[](Manifest& one) { one.world_size = 1'000'000'000'000; }, "world size"},
       {[](Manifest& one) { one.world_size = 0; }, "out of range"},
       {[](Manifest& one) { one.left_out->tensors = 0; },
        "what it says of the weights that it leaves out is out of range"}});
}

using NewestCheckpoint = CheckpointTest;

TEST_F(NewestCheckpoint, IsNoneInAnEmptyRun) {
  std::vector<CheckpointFlaw> flaws;
  EXPECT_FALSE(newest());
  std::filesystem::create_directory(file("checkpoints"));
  EXPECT_FALSE(newest_checkpoint(folder(), flaws));
  EXPECT_FALSE(newest_checkpoint(file("no/such/run"), flaws));
  EXPECT_TRUE(flaws.empty());
  std::filesystem::remove(file("checkpoints"));
  write(file("checkpoints"), "a file");
  EXPECT_TRUE(says(error_of([&] { newest(); }), "Not a directory"));
}

TEST_F(NewestCheckpoint, IsTheGreatestStepThatIsWholeAndBrokenOnesAreNamed) {
  auto writer = lone_writer(folder(), 9);
  for (const int64_t step : {99'999'999, 100'000'000, 2, 100'000'001, 100'000'002})
    writer.save(sample_checkpoint(step), false);
  std::filesystem::remove(path_of(100'000'002) / kManifestFile);
  write(path_of(100'000'001) / kModelFile, "nonsense");
  std::vector<CheckpointFlaw> flaws;
  EXPECT_EQ(newest_checkpoint(folder(), flaws)->step, 100'000'000) << "not the last in the alphabet";
  EXPECT_EQ(checkpoint_steps(folder()), (std::vector<int64_t>{2, 99'999'999, 100'000'000, 100'000'001, 100'000'002}));
  ASSERT_EQ(flaws.size(), 2U);
  EXPECT_EQ(flaws[0].path, path_of(100'000'002));
  EXPECT_TRUE(says(flaws[0].problem, kManifestFile));
  EXPECT_TRUE(says(flaws[1].problem, kModelFile));
}

TEST_F(NewestCheckpoint, IgnoresOtherNames) {
  lone_writer(folder()).save(sample_checkpoint(1), false);
  for (const char* name : {"step_00000009.tmp", "step_9", "step_-0000009", "step_00000009.broken", "step_", "notes",
                           "step_99999999999999999999999", "step_0000000x"})
    std::filesystem::copy(path_of(1), checkpoints_folder(folder()) / name);
  write(path_of(8), "a file");
  std::vector<CheckpointFlaw> flaws;
  EXPECT_EQ(newest_checkpoint(folder(), flaws)->step, 1);
  EXPECT_TRUE(flaws.empty());
}

}  // namespace
}  // namespace ddprun
