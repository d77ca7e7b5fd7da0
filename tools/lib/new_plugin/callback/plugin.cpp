// @name@: stochastic weight averaging (Izmailov and others, UAI 2018): the model ends with the mean of the weights that
// it had at the end of each epoch from `first_epoch` on. Make it yours.
#include <ddprun/callback.h>

#include <ATen/TensorOperators.h>  // a * b; all of <ATen/ATen.h> takes ten seconds

namespace {

class @class@ final : public ddprun::Callback {
 public:
  // Reads the options, and nothing more.
  explicit @class@(ddprun::Options& options)
      : first_epoch_(options.get<int64_t>("first_epoch", 2, "the first epoch whose weights count", {.min = 1})) {}

  void start(const ddprun::Training& training) override { training_ = training; }
  int64_t every() const override { return training_.steps_per_epoch; }

  // Called on every rank; the weights are the same on each. What it asks for must be so, too: here nothing.
  ddprun::Requests after_step(const ddprun::StepDone& step) override {
    if (step.epoch < first_epoch_) return {};
    for (const auto& weight : training_.model->named_parameters()) {
      auto& sum = state_[weight.key()];
      sum = sum.defined() ? sum + weight.value().detach() : weight.value().detach().clone();
    }
    auto& count = state_["count"];
    count = count.defined() ? count + 1 : at::scalar_tensor(1, at::kLong);
    return {};
  }

  // Comes at the end, before the last checkpoint and the test.
  void finish() override {
    if (state_.empty()) return;
    const auto count = static_cast<double>(state_.at("count").item<int64_t>());
    for (auto& weight : training_.model->named_parameters()) weight.value().detach().copy_(state_.at(weight.key()) / count);
  }

  // What later calls depend on. It goes into checkpoints, and comes back when a run is resumed.
  std::map<std::string, at::Tensor> state() const override { return state_; }
  void load_state(const std::map<std::string, at::Tensor>& state) override {
    state_ = state;
    for (auto& [name, sum] : state_) sum = sum.clone();
  }

 private:
  const int64_t first_epoch_;
  ddprun::Training training_;
  std::map<std::string, at::Tensor> state_;  // sums of weights by name, and how many they are
};

}  // namespace

DDPRUN_CALLBACK(@class@, "@name@", "the model ends with the mean of its weights over epochs")
