// SPDX-License-Identifier: MIT
#include "checkpoint/shared_file.h"

#include "checkpoint/checkpoint_fixture.h"

#include <ATen/Functions.h>
#include <gmock/gmock.h>

#include <list>
#include <numeric>
#include <stdexcept>

namespace ddprun {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kRanks = 3;

class Shared : public CheckpointTest {
 protected:
  Shared() {
    const auto large = whole_.optimizer["large"] = at::empty({3 << 20}, at::kInt);  // read in several pieces
    std::iota(large.mutable_data_ptr<int>(), large.mutable_data_ptr<int>() + large.numel(), 0);  // other tests fork
    for (int64_t rank = 0; rank < kRanks; ++rank) {
      parts_.push_back(part_of(whole_, rank, kRanks));
      files_.emplace_back(file("shared"), parts_.back().optimizer, parts_.back().optimizer_elsewhere, rank);
    }
  }

  // As all ranks do, the last one first. Returns what they say that they have written.
  std::vector<std::string> write() const {
    files_.front().create();
    std::vector<std::string> written(kRanks);
    for (auto rank = kRanks - 1; rank >= 0; --rank)
      written[static_cast<size_t>(rank)] = files_[static_cast<size_t>(rank)].write_own();
    return written;
  }

  std::string problem_after(const std::function<void(std::string& bytes)>& spoil) const {
    const auto written = write();
    auto bytes = read_bytes(file("shared"));
    spoil(bytes);
    write_bytes(file("shared"), bytes);
    return user_error_of([&] { files_.front().compared(written); });
  }

  Checkpoint whole_ = rich_checkpoint(2, kRanks);
  std::list<Checkpoint> parts_;  // stay where they are
  std::vector<SharedFile> files_;
};

TEST_F(Shared, IsTheFileOfARankThatHasAllTensors) {
  const auto written = write();
  const auto alone = write_safetensors(file("alone"), whole_.optimizer);
  EXPECT_EQ(read_bytes(file("shared")), read_bytes(file("alone")));
  EXPECT_EQ(files_.front().compared(written), alone);
}

TEST_F(Shared, OfOneRankIsTheSame) {
  const SharedFile lone(file("shared"), whole_.optimizer, {}, 0);
  lone.create();
  EXPECT_EQ(lone.compared({lone.write_own()}), write_safetensors(file("alone"), whole_.optimizer));
}

TEST_F(Shared, OfNoTensorsIsOneOfNone) {
  const TensorDict none;
  const SharedFile empty(file("shared"), none, {}, 0);
  EXPECT_FALSE(empty.holds_something());
  empty.create();
  EXPECT_EQ(empty.compared({empty.write_own()}), write_safetensors(file("alone"), none));
}

TEST_F(Shared, ARankWithoutTensorsNeedNotSeeIt) {
  const TensorDict none;
  const SharedFile other(file("nowhere/shared"), none, parts_.front().optimizer_elsewhere, 7);
  EXPECT_EQ(other.write_own(), Sha256().hex());
}

TEST_F(Shared, WhatIsNotAsItWasWrittenIsFoundWithItsRank) {
  EXPECT_THAT(problem_after([](std::string& bytes) { bytes.front() ^= 1; }),
              HasSubstr("shared: its header is not what"));
  EXPECT_THAT(problem_after([](std::string& bytes) { bytes.pop_back(); }), HasSubstr("shared: it ends early"));
  write();
  for (const auto& entry : read_safetensors_header(file("shared"))) {
    if (entry.end == entry.begin) continue;
    int64_t owner = 0;
    for (const auto& [form, rank] : parts_.front().optimizer_elsewhere)
      if (form.name == entry.name) owner = rank;
    SCOPED_TRACE(entry.name);
    EXPECT_THAT(
        problem_after([&](std::string& bytes) { bytes[entry.end - 1] ^= 1; }),
        AllOf(HasSubstr("shared: the SHA-256"), HasSubstr("what rank " + std::to_string(owner) + " has written")));
  }
}

TEST_F(Shared, APartThatWasNotWrittenIsFound) {
  const auto written = write();
  files_[0].create();
  files_[0].write_own();
  files_[2].write_own();
  EXPECT_THAT(user_error_of([&] { files_.front().compared(written); }), HasSubstr("what rank 1 has written"));
}

TEST_F(Shared, IsNotMadeByWhoWritesToIt) {
  EXPECT_THAT(user_error_of([&] { files_[1].write_own(); }),
              AllOf(HasSubstr("shared: cannot write"), HasSubstr("No such file")));
  EXPECT_FALSE(std::filesystem::exists(file("shared")));
  std::filesystem::create_symlink(file("another"), file("shared"));
  write_bytes(file("another"), "somebody's");
  EXPECT_THAT(user_error_of([&] { files_[1].write_own(); }), HasSubstr("shared: cannot write"));
  EXPECT_EQ(read_bytes(file("another")), "somebody's");
}

TEST_F(Shared, ATensorOfTwoRanksIsRefused) {
  auto elsewhere = parts_.front().optimizer_elsewhere;
  elsewhere.push_back({safetensors_form("bias/large", parts_.front().optimizer.at("bias/large")), 1});
  EXPECT_THROW(SharedFile(file("shared"), parts_.front().optimizer, elsewhere, 0), std::invalid_argument);
}

}  // namespace
}  // namespace ddprun
