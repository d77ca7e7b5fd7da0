// SPDX-License-Identifier: MIT
// Calls an experiment's callbacks (callbacks:), and makes sure that they ask for the same on all ranks. Used from the
// training thread, by all ranks alike.
#pragma once

#include "comm/communicator.h"
#include "train/feature.h"

#include <ddprun/callback.h>
#include <ddprun/safetensors.h>

#include <memory>
#include <string>
#include <vector>

namespace ddprun {

struct NamedCallback {
  std::string plugin;
  std::string path;  // "callbacks[0]"
  std::shared_ptr<Callback> callback;
};

class Callbacks final : public Feature {
 public:
  Callbacks(std::vector<NamedCallback> callbacks, Communicator& communicator);

  // Starts them. Throws PluginMistake if one names no sensible every().
  void start(Loop& loop) override;

  // Pass on what has happened, and do what the callbacks ask for together: at once, or at the end of this part. The
  // reason of a stop names its callback. They throw PluginMistake on all ranks if one does not ask for the same on
  // each. Collective, where a callback is called.
  void computed(Loop& loop, const TrainBatch& batch, const StepOutcome* outcome) override;
  void after_step(Loop& loop) override;
  void after_evaluation(Loop& loop, const NamedValues& metrics) override;

  // Let them change the weights at the end, once in a run; again where the run continues after all, made longer.
  Finish finishes() const override { return finished_ ? Finish::kDone : Finish::kToDo; }
  void finish() override;

  // Only a callback knows whether it would stop the run again.
  bool stays(const Loop& /*loop*/, RunStatus ended) const override { return ended == RunStatus::kStoppedEarly; }

  // Return copies on the CPU of what a checkpoint keeps, "callbacks/swa/state/average", and restore it. The tensors may
  // be of others, too. Warns of the state of a callback that is no longer named.
  TensorDict state() const override;
  void load_state(const TensorDict& saved) override;

 private:
  struct Entry : NamedCallback {
    std::string name;  // of its state: the plugin's, or "swa_2" of the second one
    double lr_factor = 1;
    int64_t every = 1;
  };
  struct Answer {
    Entry* entry;
    Requests requests;
  };

  Requests agreed(std::vector<Answer> answers, const char* hook, int64_t step);
  void obey(const Requests& requests, Loop& loop) const;
  double lr_factor() const;

  std::vector<Entry> entries_;
  Communicator& communicator_;
  at::Tensor loss_;  // of the step that was just computed; undefined: it was skipped
  bool finished_ = false;
};

}  // namespace ddprun
