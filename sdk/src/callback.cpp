// SPDX-License-Identifier: MIT
#include <ddprun/callback.h>

namespace ddprun {

Callback::~Callback() = default;
void Callback::start(const Training&) {}
Requests Callback::after_step(const StepDone&) { return {}; }
int64_t Callback::every() const { return 1; }
Requests Callback::after_evaluation(const EvaluationDone&) { return {}; }
void Callback::finish() {}
std::map<std::string, at::Tensor> Callback::state() const { return {}; }
void Callback::load_state(const std::map<std::string, at::Tensor>&) {}

}  // namespace ddprun
