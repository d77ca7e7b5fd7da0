// SPDX-License-Identifier: MIT
// A perceptron with hidden layers of one width, for samples of any shape: the smallest useful model plugin. It
// classifies if the data have classes, and predicts `outputs` values otherwise.
#include <ddprun/dropout.h>
#include <ddprun/error.h>
#include <ddprun/model.h>

#include <torch/nn/modules/linear.h>

#include <functional>
#include <numeric>

namespace {

class Mlp final : public ddprun::Model {
 public:
  explicit Mlp(ddprun::Options& options)
      : hidden_(options.get<int64_t>("hidden", 128, "units in each hidden layer", {.min = 1, .max = 1 << 20})),
        layers_(options.get<int64_t>("layers", 1, "hidden layers", {.min = 0, .max = 1000})),
        dropout_(options.get<double>("dropout", 0, "probability of dropping a hidden unit in training",
                                     {.min = 0, .max = 1})),
        outputs_(options.get<int64_t>("outputs", 0, "values to predict; 0: one score per class of the dataset",
                                      {.min = 0, .max = 1 << 20})) {}

  void prepare(const ddprun::DataSpec& data) override {
    const auto outputs = outputs_ > 0 ? outputs_ : data.classes;
    if (outputs < 1) {
      throw ddprun::UserError(
          "the dataset has no classes; set model.outputs to how many values to predict, 1 for a "
          "regression of one number");
    }
    const auto& shape = data.sample_shape;
    auto width = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
    if (width < 1) throw ddprun::UserError("mlp needs samples with at least one value");
    for (int64_t layer = 0; layer < layers_; ++layer) {
      linears_.push_back(register_module("hidden" + std::to_string(layer + 1), torch::nn::Linear(width, hidden_)));
      width = hidden_;
    }
    output_ = register_module("output", torch::nn::Linear(width, outputs));
  }

  at::Tensor forward(const at::Tensor& input) override {
    auto x = input.flatten(1);
    for (auto& linear : linears_) x = ddprun::dropout(linear(x).relu_(), dropout_, is_training());
    return output_(x);  // [B, classes or outputs]
  }

 private:
  const int64_t hidden_, layers_;
  const double dropout_;
  const int64_t outputs_;
  std::vector<torch::nn::Linear> linears_;
  torch::nn::Linear output_{nullptr};
};

}  // namespace

DDPRUN_MODEL(Mlp, "mlp", "perceptron with ReLU layers for flat data and small images, for classes or values")
