// SPDX-License-Identifier: MIT
// The network under training: a torch::nn::Module with a constructor that reads options, and a forward.
//
// The runner constructs it (in `ddprun check` too, so the constructor only reads options), calls prepare() once, and
// initialize() where a training begins, moves it to its device, gives every rank the weights of rank 0, and then calls
// step() from one thread. With trainer.strategy dp a worker has one for each GPU, and their steps run at once. The
// runner averages the gradients itself: a model never calls a collective.
//
// Shapes: B = samples in this rank's batch, C = number of classes.
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

// What one call of Model::step gives.
struct Step {
  at::Tensor loss;  // mean over the B samples, float32 scalar, attached to the graph
  std::vector<MetricSum> metrics;
  at::Tensor confusion;  // as Objective::confusion gives it; may be undefined
};

namespace detail {
template <class Class>
void create_model(void* options, void* out);
}  // namespace detail

class DDPRUN_API Model : public torch::nn::Module {
 public:
  Model();
  ~Model() override;

  // Builds the layers, now that the data's shape is known. The weights drawn here come from the experiment's seed.
  virtual void prepare(const DataSpec& data);

  // Changes first weights by what the training samples are like: whitening, scales. Called after prepare(), on the CPU,
  // once in a run: a resumed one has its weights from the checkpoint. The default changes nothing.
  virtual void initialize(const Dataset& data);

  // Predictions: [B, C] logits for a classifier. `input` is the batch's.
  virtual at::Tensor forward(const at::Tensor& input) = 0;

  // Loss and metrics of one batch. The default applies the experiment's objective to forward(batch.input). A model with
  // a loss of its own overrides it.
  virtual Step step(const Batch& batch, const Objective& objective);

  // Whether step() is the default, whose metrics are those of the objective. DDPRUN_MODEL finds out; false of other
  // models.
  bool has_default_step() const { return has_default_step_; }

 private:
  template <class Class>
  friend void detail::create_model(void* options, void* out);

  bool has_default_step_ = false;
};

namespace detail {

template <class Class>
concept InheritsStep = requires { requires std::is_same_v<decltype(&Class::step), decltype(&Model::step)>; };

template <class Class>
void create_model(void* options, void* out) {
  create_plugin<Model, Class>(options, out);
  (*static_cast<std::shared_ptr<Model>*>(out))->has_default_step_ = InheritsStep<Class>;
}

}  // namespace detail

}  // namespace ddprun

// Makes the class a model plugin; help_text is shown by `ddprun plugins`. Once in a library, outside any namespace.
#define DDPRUN_MODEL(plugin_class, plugin_name, help_text) \
  DDPRUN_REGISTER_PLUGIN(::ddprun::detail::create_model<plugin_class>, "model", plugin_name, help_text)
