// SPDX-License-Identifier: MIT
#include "step/operator_listener.h"

#include <c10/util/ThreadLocalDebugInfo.h>

#include <mutex>

namespace ddprun {
namespace {

// Returns a kind that LibTorch passes on into backward and uses for nothing. It is a constant up to 2.14, an object
// since.
auto kind() { return c10::DebugInfoKind::PRODUCER_INFO; }

struct Heard final : c10::DebugInfoBase {
  explicit Heard(OperatorListener* to) : listener(to) {}
  OperatorListener* listener;
  std::mutex mutex;
};

Heard* heard_here() { return static_cast<Heard*>(c10::ThreadLocalDebugInfo::get(kind())); }

std::unique_ptr<at::ObserverContext> on_begin(const at::RecordFunction& call) {
  auto* const heard = heard_here();
  if (!heard) return nullptr;
  const at::DisableRecordFunctionGuard unheard;
  const std::scoped_lock lock(heard->mutex);
  return heard->listener->begun(call);
}

void on_end(const at::RecordFunction& call, at::ObserverContext* of_begun) {
  auto* const heard = heard_here();
  if (!heard || !of_begun) return;
  const at::DisableRecordFunctionGuard unheard;
  const std::scoped_lock lock(heard->mutex);
  heard->listener->ended(call, *of_begun);
}

}  // namespace

void OperatorListener::ended(const at::RecordFunction&, at::ObserverContext&) {}

class Listening::Guard {
 public:
  explicit Guard(OperatorListener& listener) : info_(kind(), std::make_shared<Heard>(&listener)) {
    callback_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback(on_begin, on_end)
            .needsInputs(true)
            .needsOutputs(listener.needs_outputs())
            .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION, at::RecordScope::USER_SCOPE}));
  }
  ~Guard() { at::removeCallback(callback_); }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

 private:
  c10::DebugInfoGuard info_;
  at::CallbackHandle callback_;
};

Listening::Listening(OperatorListener* listener) : guard_(listener ? std::make_unique<Guard>(*listener) : nullptr) {}
Listening::~Listening() = default;

}  // namespace ddprun
