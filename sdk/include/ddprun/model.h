// SPDX-License-Identifier: MIT
// The network under training: a torch::nn::Module with a constructor that reads options, and a forward() or predict().
//
// The runner constructs it (also in `ddprun check`, so the constructor only reads options), calls prepare() once, calls
// initialize() if training starts from scratch, moves it to its device, gives every rank the weights of rank 0, and
// then calls step() from one thread. Under trainer.strategy dp, a worker has one model per GPU and their steps run
// concurrently. The runner averages the gradients itself: a model never calls a collective.
//
// Shapes: B = samples in this rank's batch, C = number of classes, T = symbols of a sequence.
#pragma once

#include <ddprun/batch.h>
#include <ddprun/dataset.h>
#include <ddprun/metric.h>
#include <ddprun/objective.h>
#include <ddprun/plugin.h>

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace ddprun {

// The result of Model::step.
struct Step {
  at::Tensor loss;  // mean over what counts, float32 scalar, attached to the graph
  std::vector<MetricSum> metrics;
  std::vector<MetricCounts> counts = {};  // as returned by Objective::counts; none in training
  // How many samples, symbols or pixels the loss is the mean over, an int64 scalar on the model's device: the runner
  // weights the gradient by it, so that it is the mean over what counts in the global batch, however that is split.
  // Undefined: all of the batch, each sample with the same number of them. Every step gives it, or none does. If it is
  // 0, loss and sums of metrics are taken as 0, and the gradient must be finite.
  at::Tensor counted = {};
};

namespace detail {
template <class Class>
void create_model(void* options, void* out);
}  // namespace detail

class DDPRUN_API Model : public torch::nn::Module {
 public:
  Model();
  ~Model() override;

  // Builds the layers, now that the data's shape is known. Initial weights drawn here come from the experiment's seed.
  virtual void prepare(const DataSpec& data);

  // Adapts the initial weights to the training samples: whitening, scales. Called after prepare(), on the CPU, once in
  // a run: a resumed run takes its weights from the checkpoint. Only where checkpoints leave weights out
  // (checkpoint.only_trainable), it is called again to make those, and must come to the same. The default changes
  // nothing.
  virtual void initialize(const Dataset& data);

  // Returns the predictions, [B, C] logits for a classifier, [B, T, C] for one of symbols. `input` is that of the
  // batch. A model of one input overrides it; the default throws.
  virtual at::Tensor forward(const at::Tensor& input);

  // Returns the predictions for a batch. The default is forward(batch.input); a model of several inputs overrides it,
  // and finds the others in batch.extras. It must not read batch.target: the runner also asks it for what nobody knows.
  virtual at::Tensor predict(const Batch& batch);

  // Returns loss and metrics of one batch. The default applies the experiment's objective to predict(batch); classes of
  // symbols and pixels as_samples(), unless the objective takes_parts(). A model with a loss of its own overrides it;
  // if its loss leaves some of the targets out, it says in Step::counted how many it is the mean over.
  virtual Step step(const Batch& batch, const Objective& objective);

  // Returns true if step() waits for each weight before it first reads it (<ddprun/arriving_weights.h>), so that the
  // others' new ones may arrive meanwhile (trainer.shard_optimizer). Asked after prepare().
  virtual bool waits_for_weights() const { return false; }

  // Sets training or evaluation mode, also of the layers; those of keep_in_evaluation() stay in evaluation mode.
  void train(bool on = true) override;

  // Keeps these layers of the model in evaluation mode from now on, and no others: the runner calls it with those whose
  // running statistics are frozen (pretrained.freeze).
  void keep_in_evaluation(std::vector<std::shared_ptr<torch::nn::Module>> layers);
  bool is_kept_in_evaluation(const torch::nn::Module& layer) const;

  // Returns true if step() is the default, so that its metrics are the objective's. DDPRUN_MODEL finds out; it is false
  // for models made otherwise. A model whose step() calls the default for some options overrides it; it is asked before
  // prepare().
  virtual bool has_default_step() const { return has_default_step_; }

  // Returns true unless DDPRUN_MODEL has found a predict() of the model's own.
  bool has_default_predict() const { return has_default_predict_; }

 private:
  template <class Class>
  friend void detail::create_model(void* options, void* out);

  bool has_default_step_ = false, has_default_predict_ = true;
  std::vector<std::shared_ptr<torch::nn::Module>> kept_in_evaluation_;
};

namespace detail {

template <class Class>
concept InheritsStep = requires { requires std::is_same_v<decltype(&Class::step), decltype(&Model::step)>; };

template <class Class>
concept InheritsPredict = requires { requires std::is_same_v<decltype(&Class::predict), decltype(&Model::predict)>; };

// A method that only looks like these, one that takes its argument otherwise, overrides nothing.
template <class Class>
concept OverridesForward = requires {
  static_cast<at::Tensor (Class::*)(const at::Tensor&)>(&Class::forward);
  requires !std::is_same_v<decltype(&Model::forward), decltype(&Class::forward)>;
};

template <class Class>
concept OverridesPredict =
    !InheritsPredict<Class> && requires { static_cast<at::Tensor (Class::*)(const Batch&)>(&Class::predict); };

template <class Class>
void create_model(void* options, void* out) {
  static_assert(OverridesForward<Class> || OverridesPredict<Class>,
                "a model has a public at::Tensor forward(const at::Tensor& input), or at::Tensor predict(const "
                "ddprun::Batch& batch) if it has several inputs");
  create_plugin<Model, Class>(options, out);
  auto& model = **static_cast<std::shared_ptr<Model>*>(out);
  model.has_default_step_ = InheritsStep<Class>;
  model.has_default_predict_ = !OverridesPredict<Class>;
}

}  // namespace detail

}  // namespace ddprun

// Registers the class as a model plugin; `ddprun plugins` shows help_text. Use once per library, outside any namespace.
#define DDPRUN_MODEL(plugin_class, plugin_name, help_text) \
  DDPRUN_REGISTER_PLUGIN(::ddprun::detail::create_model<plugin_class>, "model", plugin_name, help_text)
