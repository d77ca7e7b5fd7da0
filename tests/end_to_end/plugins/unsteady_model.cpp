// SPDX-License-Identifier: MIT
// A two-layer classifier that computes by what no experiment says: a clock, random numbers that nothing seeds. Its
// faults, bits that flip once, strike while the file that $UNSTEADY_FAULT names is there.
#include <ddprun/model.h>

#include <torch/nn/modules/linear.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>

namespace {

void flip_a_bit(const at::Tensor& tensor) {
  const torch::NoGradGuard no_gradients;
  tensor.view(-1).view(at::kInt)[3].bitwise_xor_(1 << 21);
}

class UnsteadyModel final : public ddprun::Model {
 public:
  explicit UnsteadyModel(ddprun::Options& options)
      : way_(options.get<std::string>("way", "", "what it computes by")),
        call_(options.get<int64_t>("call", 6, "forward pass of training in which a fault strikes")) {}

  void prepare(const ddprun::DataSpec& data) override {
    hidden_ = register_module("hidden", torch::nn::Linear(c10::multiply_integers(data.sample_shape), 16));
    output_ = register_module("output", torch::nn::Linear(16, data.classes));
  }

  at::Tensor forward(const at::Tensor& input) override {
    if (is_training()) ++calls_;
    if (way_ == "weight" && strikes()) flip_a_bit(output_->weight);
    const auto hidden = at::relu(hidden_(input.flatten(1)));
    auto output = output_(hidden * factor());
    if (way_ == "gradient" && strikes()) output.register_hook([](const at::Tensor& gradient) { flip_a_bit(gradient); });
    return output;
  }

 private:
  bool strikes() const {
    const auto* file = std::getenv("UNSTEADY_FAULT");
    return is_training() && calls_ == call_ && file && std::filesystem::exists(file);
  }

  double factor() const {
    if (way_ == "random") return 1 + 1e-6 * (std::random_device()() % 1000);
    if (way_ == "clock") return 1 + 1e-6 * (std::chrono::steady_clock::now().time_since_epoch().count() % 1000);
    if (way_ == "scaled") return 1.5;
    return 1;
  }

  std::string way_;
  int64_t call_, calls_ = 0;
  torch::nn::Linear hidden_{nullptr}, output_{nullptr};
};

}  // namespace

DDPRUN_MODEL(UnsteadyModel, "unsteady_model", "a classifier that computes by what no experiment says")
