// SPDX-License-Identifier: MIT
// write_checkpoint_for_python <run folder>: saves what python_reads_checkpoint_test.py expects, of two ranks.
#include "checkpoint/checkpoint_writer.h"

#include <ATen/Functions.h>

#include <cstdio>
#include <exception>
#include <stdexcept>

namespace {

ddprun::TensorDict of_every_dtype() {
  ddprun::TensorDict tensors;
  for (const auto dtype : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort,
                           at::kChar, at::kByte, at::kBool}) {
    const std::string name = c10::toString(dtype);
    tensors[name + ".matrix"] = at::arange(12).view({3, 4}).to(dtype);
    tensors[name + ".scalar"] = at::scalar_tensor(1).to(dtype);
    tensors[name + ".empty"] = at::empty({0, 2}, at::dtype(dtype));
    tensors[name + ".transposed"] = at::arange(12).view({3, 4}).to(dtype).t();
  }
  tensors["channels_last"] = at::arange(120, at::kFloat).view({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  tensors["slice"] = at::arange(1000000, at::kFloat).slice(0, 1000, 1003);
  tensors["special"] = at::tensor({INFINITY, -INFINITY, -0.0F, 1e-45F}, at::kFloat);
  return tensors;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2) return 2;
  const auto agree = [](const std::string& error) {
    if (!error.empty()) throw std::runtime_error(error);
    return error;
  };
  ddprun::CheckpointWriter(argv[1], 1, {0, 2, agree})
      .save({.step = 1200,
             .model = of_every_dtype(),
             .optimizer = of_every_dtype(),
             .progress = "{\"epoch\": 3, \"name\": \"\u00e4\"}",
             .ranks = {{{"generator", at::full({16}, 5, at::kByte)}}, {{"generator", at::full({16}, 6, at::kByte)}}}},
            true);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
