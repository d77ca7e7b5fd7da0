// SPDX-License-Identifier: MIT
// Code of your own in the training loop, named under `callbacks:`. It sees steps and evaluations, and may ask for a
// stop, a checkpoint, an evaluation, or another learning rate.
//
// Every rank has an object of its own and calls it from the training thread, between steps. Whatever a callback asks
// for, it must ask for on all ranks at the same step; otherwise the run ends with an error. Everything it gets is
// the same on all ranks, except the loss of a step. It calls no collective, and it may change weights only as finish()
// says. The constructor only reads options. What only reports is a Logger, which costs the training no time.
#pragma once

#include <ddprun/model.h>
#include <ddprun/plugin.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace ddprun {

// The training at the start of an attempt.
struct Training {
  std::shared_ptr<Model> model;  // on its device, with the weights of the checkpoint if the run is resumed
  std::shared_ptr<const Dataset> dataset;
  int64_t rank = 0, world_size = 1;
  int64_t step = 0;  // steps done before this attempt
  int64_t steps_per_epoch = 0;
  int64_t max_steps = 0;     // where the run ends at the latest
  int64_t global_batch = 0;  // samples of a step, on all ranks together
};

// A step that was just done.
struct StepDone {
  int64_t epoch = 0;    // counted from 1
  int64_t step = 0;     // steps done
  int64_t samples = 0;  // training samples seen by all ranks together
  double lr = 0;        // of the first group of parameters, in this step
  at::Tensor loss;  // the mean over this rank's samples, a scalar on the device: reading it waits for a GPU. Undefined
                    // for a step that was skipped; valid until the next step
};

// An evaluation that was just done.
struct EvaluationDone {
  std::string split;  // "val"
  int64_t epoch = 0;  // counted from 1
  int64_t step = 0;
  std::vector<std::pair<std::string, double>> metrics;  // means over all ranks: "val/accuracy", "val/loss"
};

// What a callback asks for: nothing, by default. It is done before the next step.
struct Requests {
  bool evaluate = false;
  bool save = false;      // a checkpoint
  std::string stop = {};  // a reason in one sentence: the run ends here, as early stopping ends it
  std::optional<double>
      lr_factor;  // multiplies what the schedule gives, from the next step on until another is asked for
};

namespace detail {
template <class Class>
void create_callback(void* options, void* out);
}  // namespace detail

class DDPRUN_API Callback {
 public:
  virtual ~Callback();

  // Comes first, after load_state() if the run is resumed. The default does nothing.
  virtual void start(const Training& training);

  // Called after every step, or after those that `every()` divides. With several ranks each call costs one small
  // exchange between them, if the callback overrides it. The default asks for nothing.
  virtual Requests after_step(const StepDone& step);
  virtual int64_t every() const;  // at least 1, the default

  // Called after every evaluation of the training, not after the test at its end. The default asks for nothing.
  virtual Requests after_evaluation(const EvaluationDone& evaluation);

  // Comes last, before the last checkpoint and the test, if the training has come to its end. It may change the
  // weights, on all ranks alike. The default does nothing.
  virtual void finish();

  // Returns what the next call depends on, by name, equal on all ranks; a checkpoint keeps rank 0's. load_state()
  // receives it when a run is resumed. It throws UserError if it does not fit. The defaults keep
  // nothing.
  virtual std::map<std::string, at::Tensor> state() const;
  virtual void load_state(const std::map<std::string, at::Tensor>& state);

  // Returns whether after_step() is overridden. DDPRUN_CALLBACK finds out; it is true for callbacks made otherwise.
  bool sees_steps() const { return sees_steps_; }

 private:
  template <class Class>
  friend void detail::create_callback(void* options, void* out);

  bool sees_steps_ = true;
};

namespace detail {

template <class Class>
concept InheritsAfterStep =
    requires { requires std::is_same_v<decltype(&Class::after_step), decltype(&Callback::after_step)>; };

template <class Class>
void create_callback(void* options, void* out) {
  create_plugin<Callback, Class>(options, out);
  (*static_cast<std::shared_ptr<Callback>*>(out))->sees_steps_ = !InheritsAfterStep<Class>;
}

}  // namespace detail

}  // namespace ddprun

// Registers the class as a callback plugin; `ddprun plugins` shows help_text. Use once per library, outside any
// namespace.
#define DDPRUN_CALLBACK(plugin_class, plugin_name, help_text) \
  DDPRUN_REGISTER_PLUGIN(::ddprun::detail::create_callback<plugin_class>, "callback", plugin_name, help_text)
