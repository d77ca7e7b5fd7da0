// @name@: a perceptron with one hidden layer, for samples of any shape. Make it yours.
#include <ddprun/error.h>
#include <ddprun/model.h>

#include <torch/nn/modules/linear.h>

namespace {

class @class@ final : public ddprun::Model {
 public:
  // Reads the options, and nothing more: `ddprun check` and `ddprun plugins show @name@` construct it too. Each option
  // is declared where it is read; that makes its help, its default, and the errors for a wrong value or a mistyped
  // name.
  explicit @class@(ddprun::Options& options)
      : hidden_(options.get<int64_t>("hidden", 64, "units in the hidden layer", {.min = 1})),
        dropout_(options.get<double>("dropout", 0, "probability of dropping a hidden unit in training",
                                     {.min = 0, .max = 1})) {}

  // Builds the layers, now that the shape of the data is known. What register_module() is given is trained, averaged
  // over the workers, and saved under its name. A UserError is for what the user can mend: it is shown as it is.
  void prepare(const ddprun::DataSpec& data) override {
    if (data.classes < 1) throw ddprun::UserError("@name@ is a classifier, but the dataset has no classes");
    int64_t inputs = 1;
    for (const auto size : data.sample_shape) inputs *= size;
    first_ = register_module("first", torch::nn::Linear(inputs, hidden_));
    second_ = register_module("second", torch::nn::Linear(hidden_, data.classes));
  }

  // [B, ...] samples to [B, classes] logits, on whatever device the input lies. Each sample for itself: then one worker
  // with 64 of them and four with 16 train the same.
  at::Tensor forward(const at::Tensor& input) override {
    const auto hidden = first_(input.flatten(1)).relu();
    return second_(at::dropout(hidden, dropout_, is_training()));
  }

 private:
  const int64_t hidden_;
  const double dropout_;
  torch::nn::Linear first_{nullptr}, second_{nullptr};
};

}  // namespace

DDPRUN_MODEL(@class@, "@name@", "a perceptron with one hidden layer")
