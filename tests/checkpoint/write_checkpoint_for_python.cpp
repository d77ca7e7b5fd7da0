// SPDX-License-Identifier: MIT
// write_checkpoint_for_python <run folder>: saves what python_reads_checkpoint_test.py expects, by two ranks.
#include <ATen/Functions.h>

#include <barrier>
#include <cstdio>
#include <exception>
#include <thread>
#include <vector>

#include "checkpoint/checkpoint_writer.h"

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
  std::barrier both(2);
  std::vector<std::string> notes(2);
  std::vector<std::jthread> ranks;
  for (const int64_t rank : {0, 1}) {
    ranks.emplace_back([&both, &notes, rank, run_dir = argv[1]] {
      const auto agree = [&](const std::string& error, const std::string& note) {
        if (!error.empty()) std::fprintf(stderr, "%s\n", error.c_str()), std::terminate();
        notes[static_cast<size_t>(rank)] = note;
        both.arrive_and_wait();
        ddprun::CheckpointWriter::Ranks::Agreed agreed{"", notes};
        both.arrive_and_wait();
        return agreed;
      };
      ddprun::CheckpointWriter writer(run_dir, 1, {rank, 2, agree});
      writer.save({.step = 1200,
                   .model = of_every_dtype(),
                   .optimizer = of_every_dtype(),
                   .progress = "{\"epoch\": 3, \"name\": \"\u00e4\"}",
                   .rank = {{"generator", at::full({16}, rank + 5, at::kByte)}}},
                  true);
    });
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
