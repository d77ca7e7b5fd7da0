// SPDX-License-Identifier: MIT
#include "weights/checkpoint_exchange.h"

#include "checkpoint/checkpoint_writer.h"
#include "support/toy_run.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using testing::on_ranks;
using testing::TempFolder;

bool same(const at::Tensor& one, const at::Tensor& other) {
  return one.scalar_type() == other.scalar_type() && one.strides() == other.strides() && at::equal(one, other);
}

bool same(const TensorDict& one, const TensorDict& other) {
  return one.size() == other.size() &&
         std::ranges::all_of(one, [&](const auto& entry) { return same(entry.second, other.at(entry.first)); });
}

// All that a state may hold: each size of elements, nothing, one number, and elements that lie in another order.
TensorDict state(int64_t rank) {
  return {
      {"none", at::empty({0, 3})},
      {"one", at::scalar_tensor(rank, at::kLong)},
      {"bool", at::arange(3).eq(rank)},
      {"half", at::full({5}, 0.5 + static_cast<double>(rank), at::kHalf)},
      {"bytes", at::arange(7, at::kByte) + rank},
      {"channels_last", at::arange(120, at::kDouble).view({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast)}};
}

// As a file gives them back.
TensorDict row_major(TensorDict tensors) {
  for (auto& [name, tensor] : tensors) tensor = tensor.contiguous();
  return tensors;
}

TEST(GatherTensors, TheFirstRankGetsThoseOfAllByRank) {
  on_ranks(3, [](Communicator& communicator) {
    const auto rank = communicator.world().rank;
    auto mine = state(rank);
    if (rank == 2) mine["of the last"] = at::ones({3});
    const auto all = gather_tensors(mine, communicator);
    ASSERT_EQ(all.size(), rank == 0 ? 3U : 0U);
    for (size_t other = 0; other < all.size(); ++other) {
      auto expected = state(static_cast<int64_t>(other));
      if (other == 2) expected["of the last"] = at::ones({3});
      EXPECT_TRUE(same(all[other], expected)) << other;
    }
  });
}

TEST(FormsElsewhere, AreThoseOfAllOthers) {
  on_ranks(3, [](Communicator& communicator) {
    const auto rank = communicator.world().rank;
    TensorDict mine;
    for (const auto& [name, tensor] : state(rank)) mine[std::to_string(rank) + name] = tensor;
    if (rank == 2) mine.clear();
    std::map<std::string, SafetensorsEntry> expected;
    for (const int64_t other : {0, 1}) {
      if (other == rank) continue;
      for (const auto& [name, tensor] : state(other))
        expected[std::to_string(other) + name] = safetensors_form(name, tensor);
    }
    const auto found = forms_elsewhere(mine, communicator);
    ASSERT_EQ(found.size(), expected.size());
    for (const auto& [form, from] : found) {
      EXPECT_EQ(std::to_string(from), form.name.substr(0, 1));
      EXPECT_EQ(form.dtype, expected.at(form.name).dtype);
      EXPECT_EQ(form.type, expected.at(form.name).type);
      EXPECT_EQ(form.shape, expected.at(form.name).shape);
    }
  });
}

TEST(GatherApart, TheFirstRankGetsWhatTheOthersHave) {
  on_ranks(3, [](Communicator& communicator) {
    const auto rank = communicator.world().rank;
    TensorDict mine;
    for (const auto& [name, tensor] : state(rank)) mine[std::to_string(rank) + name] = tensor;
    if (rank == 1) mine["large"] = at::arange(20 << 20, at::kInt);  // 80 MiB: more than one piece
    if (rank == 1) mine["every other"] = at::arange(10).slice(0, 0, 10, 2);
    if (rank == 2) mine.clear();
    TensorDict expected;
    if (rank == 0) {
      for (const auto& [name, tensor] : state(1)) expected["1" + name] = tensor;
      expected["large"] = at::arange(20 << 20, at::kInt);
      expected["every other"] = at::arange(0, 10, 2);
    }
    EXPECT_TRUE(same(gather_apart(mine, communicator), expected)) << rank;
  });
}

// Only rank 0 knows where it lies.
TEST(ReadOnAll, EveryRankGetsWhatRankZeroReads) {
  const TempFolder folder;
  const auto large = at::arange(20 << 20, at::kInt);  // 80 MiB: more than one piece
  const Checkpoint saved{.step = 7,
                         .model = {{"weight", at::ones({2})}},
                         .average = {{"weight", at::zeros({2})}},
                         .optimizer = {{"large", large}, {"channels_last", state(0).at("channels_last")}},
                         .progress = "{\"epoch\": 3}",
                         .ranks = {state(0), state(1)}};
  const auto path =
      CheckpointWriter(folder.path(), 1, {0, 2, [](const auto& error) { return error; }}).save(saved, false);
  on_ranks(3, [&](Communicator& communicator) {
    const bool is_rank_zero = communicator.world().rank == 0;
    const auto read = read_on_all(is_rank_zero ? path.string() : "/nowhere", communicator);
    EXPECT_EQ(read.step, 7);
    EXPECT_EQ(read.progress, saved.progress);
    EXPECT_TRUE(same(read.average, saved.average));
    EXPECT_TRUE(same(read.optimizer, row_major(saved.optimizer)));
    ASSERT_EQ(read.ranks.size(), 2U);
    for (const size_t rank : {0, 1}) EXPECT_TRUE(same(read.ranks[rank], row_major(saved.ranks[rank])));
    EXPECT_EQ(read.model.empty(), !is_rank_zero);
  });
}

}  // namespace
}  // namespace ddprun
