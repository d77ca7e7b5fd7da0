// SPDX-License-Identifier: MIT
// write_checkpoint_for_python <run folder>: saves what python_reads_checkpoint_test.py expects, of two ranks, and the
// same tensors as weights.pt.
#include "checkpoint/checkpoint_writer.h"
#include "checkpoint/torch_file.h"
#include "support/every_dtype.h"

#include <ATen/Functions.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <stdexcept>

namespace {

ddprun::TensorDict of_every_dtype_and_form() {
  auto tensors = ddprun::tensors_of_every_dtype();
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
             .model = of_every_dtype_and_form(),
             .optimizer = of_every_dtype_and_form(),
             .progress = "{\"epoch\": 3, \"name\": \"\u00e4\"}",
             .ranks = {{{"generator", at::full({16}, 5, at::kByte)}}, {{"generator", at::full({16}, 6, at::kByte)}}}},
            true);
  ddprun::write_torch_file(std::filesystem::path(argv[1]) / "weights.pt", of_every_dtype_and_form());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
