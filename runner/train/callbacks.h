// SPDX-License-Identifier: MIT
// Calls an experiment's callbacks, and makes sure that they ask for the same on all ranks. Used from the training
// thread, by all ranks alike.
#pragma once

#include "comm/communicator.h"

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

class Callbacks {
 public:
  Callbacks(std::vector<NamedCallback> callbacks, Communicator& communicator);

  bool empty() const { return entries_.empty(); }

  // Starts them, before the first step of an attempt. Throws PluginMistake if one names no sensible every().
  void start(const Training& training);

  // These return what the callbacks ask for together; the reason of a stop names its callback. They throw UserError on
  // all ranks if one does not ask for the same on each. Collective, where a callback is called.
  Requests after_step(const StepDone& step);
  Requests after_evaluation(const EvaluationDone& evaluation);

  // Let them change the weights at the end, once in a run.
  bool have_to_finish() const { return !entries_.empty() && !finished_; }
  bool have_finished() const { return finished_; }
  void finish();
  void reopen() { finished_ = false; }  // the run continues after all: it was made longer

  // Returns the product of the factors that they have asked for.
  double lr_factor() const;

  // Returns copies on the CPU of what a checkpoint keeps, for its rank 0: "callbacks/swa/state/average".
  TensorDict state() const;

  // Restores it; `saved` may hold other tensors, too. Warns of the state of a callback that is no longer named.
  void load_state(const TensorDict& saved);

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

  std::vector<Entry> entries_;
  Communicator& communicator_;
  bool finished_ = false;
};

}  // namespace ddprun
