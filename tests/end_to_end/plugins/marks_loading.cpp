// SPDX-License-Identifier: MIT
// A model that writes the file $LOADING_MARK as soon as it is loaded: what only reads a run never does that.
#include <ddprun/model.h>

#include <torch/nn/modules/linear.h>

#include <cstdio>
#include <cstdlib>

namespace {

[[gnu::constructor]] void leave_a_mark() {
  const char* file = std::getenv("LOADING_MARK");
  if (std::FILE* mark = file ? std::fopen(file, "w") : nullptr) std::fclose(mark);
}

class Marking final : public ddprun::Model {
 public:
  explicit Marking(ddprun::Options& options) : width_(options.get<int64_t>("width", 8, "of its layer")) {}

  void prepare(const ddprun::DataSpec& data) override {
    layer_ = register_module("layer", torch::nn::Linear(width_, data.classes));
  }

  at::Tensor forward(const at::Tensor& input) override { return layer_(input.flatten(1)); }

 private:
  int64_t width_;
  torch::nn::Linear layer_{nullptr};
};

}  // namespace

DDPRUN_MODEL(Marking, "marking", "writes a file when it is loaded")
