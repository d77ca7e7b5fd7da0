// SPDX-License-Identifier: MIT
// python_reads_checkpoint_test.py asks Python's torch.load(); here LibTorch's own reader does for it.
#include "checkpoint/torch_file.h"

#include "checkpoint/checkpoint_fixture.h"
#include "support/every_dtype.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/serialization/pickle.h>

namespace ddprun {
namespace {

class TorchFile : public CheckpointTest {
 protected:
  TensorDict round_trip(const TensorDict& tensors) const {
    write_torch_file(file("t.pt"), tensors);
    const auto bytes = read_bytes(file("t.pt"));
    TensorDict found;
    for (const auto& item : torch::jit::pickle_load({bytes.begin(), bytes.end()}).toGenericDict())
      found[item.key().toStringRef()] = item.value().toTensor();
    return found;
  }
};

TEST_F(TorchFile, KeepsEveryDtypeAndShape) {
  const auto tensors = tensors_of_every_dtype();
  EXPECT_TRUE(same(tensors, round_trip(tensors)));
}

TEST_F(TorchFile, KeepsChannelsLast) {
  const auto tensor = at::rand({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const auto back = round_trip({{"m", tensor}}).at("m");
  EXPECT_TRUE(same(tensor, back));
  EXPECT_EQ(tensor.strides(), back.strides());
}

TEST_F(TorchFile, HoldsAViewWithoutItsWholeStorage) {
  const auto base = at::rand({1000000});
  const TensorDict views = {{"slice", base.slice(0, 10, 12)},
                            {"every_third", base.slice(0, 0, 30, 3)},
                            {"expanded", base.slice(0, 5, 6).expand({4})},
                            {"again", base.slice(0, 10, 12)}};
  EXPECT_TRUE(same(views, round_trip(views)));
  EXPECT_LT(std::filesystem::file_size(file("t.pt")), 10000U);
}

TEST_F(TorchFile, KeepsTwoNamesOfOneTensor) {
  const auto tensor = at::rand({20});
  const TensorDict tied = {{"a", tensor}, {"b", tensor}, {"c", tensor.view({4, 5})}};
  EXPECT_TRUE(same(tied, round_trip(tied)));
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
