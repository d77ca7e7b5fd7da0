// SPDX-License-Identifier: MIT
// Files of tensors: one that several ranks write together, and that of LibTorch.
#include "checkpoint/checkpoint_fixture.h"
#include "checkpoint/shared_file.h"
#include "checkpoint/torch_file.h"

#include <ATen/Functions.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <list>
#include <numeric>
#include <stdexcept>

namespace ddprun {
namespace {

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
  std::vector<std::string> write_all() const {
    files_.front().create();
    std::vector<std::string> written(kRanks);
    for (auto rank = kRanks - 1; rank >= 0; --rank)
      written[static_cast<size_t>(rank)] = files_[static_cast<size_t>(rank)].write_own();
    return written;
  }

  std::string problem_after(const std::function<void(std::string& bytes)>& spoil) const {
    const auto written = write_all();
    auto bytes = read(file("shared"));
    spoil(bytes);
    write(file("shared"), bytes);
    return error_of([&] { files_.front().compared(written); });
  }

  Checkpoint whole_ = rich_checkpoint(2, kRanks);
  std::list<Checkpoint> parts_;  // stay where they are
  std::vector<SharedFile> files_;
};

TEST_F(Shared, IsTheFileOfARankThatHasAllTensors) {
  const auto written = write_all();
  const auto alone = write_safetensors(file("alone"), whole_.optimizer);
  EXPECT_EQ(read(file("shared")), read(file("alone")));
  EXPECT_EQ(files_.front().compared(written), alone);
  const TensorDict none;
  for (const TensorDict* tensors :
       {static_cast<const TensorDict*>(&whole_.optimizer), &none}) {  // of one rank, and of no tensors
    const SharedFile lone(file("shared"), *tensors, {}, 0);
    EXPECT_EQ(lone.holds_something(), !tensors->empty());
    lone.create();
    EXPECT_EQ(lone.compared({lone.write_own()}), write_safetensors(file("alone"), *tensors));
  }
  const SharedFile other(file("nowhere/shared"), none, parts_.front().optimizer_elsewhere, 7);
  EXPECT_EQ(other.write_own(), Sha256().hex()) << "a rank without tensors need not see it";
}

TEST_F(Shared, WhatIsNotAsItWasWrittenIsFoundWithItsRank) {
  EXPECT_TRUE(says(problem_after([](std::string& bytes) { bytes.front() ^= 1; }), "shared: its header is not what"));
  EXPECT_TRUE(says(problem_after([](std::string& bytes) { bytes.pop_back(); }), "shared: it ends early"));
  write_all();
  for (const auto& entry : read_safetensors_header(file("shared"))) {
    if (entry.end == entry.begin) continue;
    int64_t owner = 0;
    for (const auto& [form, rank] : parts_.front().optimizer_elsewhere)
      if (form.name == entry.name) owner = rank;
    SCOPED_TRACE(entry.name);
    EXPECT_TRUE(says(problem_after([&](std::string& bytes) { bytes[entry.end - 1] ^= 1; }),
                     "shared: the SHA-256 ... what rank " + std::to_string(owner) + " has written"));
  }
  const auto written = write_all();  // and one that was not written
  files_[0].create();
  files_[0].write_own();
  files_[2].write_own();
  EXPECT_TRUE(says(error_of([&] { files_.front().compared(written); }), "what rank 1 has written"));
}

TEST_F(Shared, IsNotMadeByWhoWritesToIt) {
  EXPECT_TRUE(says(error_of([&] { files_[1].write_own(); }), "shared: cannot write ... No such file"));
  EXPECT_FALSE(std::filesystem::exists(file("shared")));
  std::filesystem::create_symlink(file("another"), file("shared"));
  write(file("another"), "somebody's");
  EXPECT_TRUE(says(error_of([&] { files_[1].write_own(); }), "shared: cannot write"));
  EXPECT_EQ(read(file("another")), "somebody's");
}

TEST_F(Shared, ATensorOfTwoRanksIsRefused) {
  auto elsewhere = parts_.front().optimizer_elsewhere;
  elsewhere.push_back({safetensors_form("bias/large", parts_.front().optimizer.at("bias/large")), 1});
  EXPECT_THROW(SharedFile(file("shared"), parts_.front().optimizer, elsewhere, 0), std::invalid_argument);
}

// python_reads_checkpoint_test.py compares every type and order with Python's torch.load(); here LibTorch's reader does
// for it.
using TorchFile = CheckpointTest;

TEST_F(TorchFile, HoldsViewsAndTiedTensorsWithoutTheirWholeStorage) {
  const auto base = at::rand({1000000}), tensor = at::rand({20});
  const TensorDict tensors = {{"slice", base.slice(0, 10, 12)},
                              {"every_third", base.slice(0, 0, 30, 3)},
                              {"expanded", base.slice(0, 5, 6).expand({4})},
                              {"again", base.slice(0, 10, 12)},
                              {"a", tensor},
                              {"b", tensor},
                              {"c", tensor.view({4, 5})}};
  write_torch_file(file("t.pt"), tensors);
  EXPECT_LT(std::filesystem::file_size(file("t.pt")), 10000U);
  const auto bytes = read(file("t.pt"));
  TensorDict found;
  for (const auto& item : torch::jit::pickle_load({bytes.begin(), bytes.end()}).toGenericDict())
    found[item.key().toStringRef()] = item.value().toTensor();
  EXPECT_TRUE(same(tensors, found));
}

TEST_F(TorchFile, TheSameTensorsGiveTheSameBytesWhoseDigestItReturns) {
  const TensorDict tensors = {{"x", at::ones({9})}, {"y", at::zeros({9})}};
  const auto digest = write_torch_file(file("a"), tensors);
  EXPECT_EQ(digest, write_torch_file(file("b"), tensors));
  EXPECT_EQ(digest, digest_of(file("a")));
}

TEST_F(TorchFile, RefusesWhatItCannotHold) {
  const auto write = [&](const at::Tensor& tensor) { write_torch_file(file("t"), {{"x", tensor}}); };
  EXPECT_THROW(write(at::Tensor()), std::invalid_argument);
  EXPECT_THROW(write(at::eye(3).to_sparse()), std::invalid_argument);
  EXPECT_FALSE(std::filesystem::exists(file("t")));
}

}  // namespace
}  // namespace ddprun
