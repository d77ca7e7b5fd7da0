// SPDX-License-Identifier: MIT
// Hears the LibTorch operators of a piece of work in their order, those of backward passes too.
#pragma once

#include <ATen/record_function.h>

#include <memory>

namespace ddprun {

class OperatorListener {
 public:
  virtual ~OperatorListener() = default;

  // Called where an operator, a function of a backward pass or a range that somebody has named (RECORD_USER_SCOPE)
  // begins, with its inputs. Returns what ended() gets
  // of it; null: it is not called. Calls come from the threads of the work, among them c10d's, one at a time.
  virtual std::unique_ptr<at::ObserverContext> begun(const at::RecordFunction& call) = 0;

  // Called where it ends; its inputs may be gone by then. Its outputs are there if `needs_outputs`.
  virtual void ended(const at::RecordFunction& call, at::ObserverContext& of_begun);

  virtual bool needs_outputs() const { return false; }
};

// Lets a listener, which outlives it, hear the operators of its thread while it lives. Does nothing without one.
class Listening {
 public:
  explicit Listening(OperatorListener* listener);
  ~Listening();
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

 private:
  class Guard;
  std::unique_ptr<Guard> guard_;
};

}  // namespace ddprun
