// SPDX-License-Identifier: MIT
#include "comm/owner_exchange.h"

#include <ATen/ATen.h>
#include <torch/types.h>

#include <utility>

namespace ddprun {
namespace {

at::Tensor half_of(const at::Tensor& like) { return at::scalar_tensor(0.5, like.options().device(at::kCPU)); }

}  // namespace

OwnerExchange::OwnerExchange(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                             const std::vector<NamedParameter>& parameters, const std::vector<int64_t>& owners)
    : CppCommHookInterface(group) {
  for (size_t i = 0; i < parameters.size(); ++i) owners_[parameters[i].value.unsafeGetTensorImpl()] = owners[i];
}

// What is sent is halved where it is copied.
OwnerExchange::Halves OwnerExchange::halves(const c10d::GradBucket& bucket) const {
  const auto& flat = bucket.getBuffer();
  const auto gradients = bucket.getGradients();
  const auto parameters = bucket.getParameters();
  Halves halves;
  std::vector<at::Tensor> others;
  int64_t coming = 0, going = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto begin = gradients[i].storage_offset() - flat.storage_offset();
    const auto gradient = flat.narrow(0, begin, parameters[i].numel());
    const bool is_own = owners_.at(parameters[i].unsafeGetTensorImpl()) == state_->getRank();
    (is_own ? halves.own : others).push_back(gradient);
    (is_own ? coming : going) += gradient.numel();
  }
  halves.received = at::empty({coming}, flat.options());
  halves.sent = at::empty({going}, flat.options());
  const auto next = [](const at::Tensor& from, int64_t& begin, const at::Tensor& like) {
    return from.narrow(0, std::exchange(begin, begin + like.numel()), like.numel());
  };
  int64_t received = 0, sent = 0;
  for (const auto& gradient : halves.own) halves.added.push_back(next(halves.received, received, gradient));
  for (const auto& gradient : others) {
    auto place = next(halves.sent, sent, gradient);
    at::mul_out(place, gradient, half_of(gradient));
  }
  return halves;
}

c10::intrusive_ptr<c10d::Work> OwnerExchange::exchange(Halves& halves) const {
  std::vector<int64_t> coming(2, halves.received.numel()), going(2, halves.sent.numel());
  const auto self = static_cast<size_t>(state_->getRank());
  coming[self] = going[self] = 0;
  return state_->alltoall_base(halves.received, halves.sent, coming, going);
}

// With a hook, c10d does not divide. A half is exact, but where it is denormal: hence before the sum, as c10d does it.
c10::intrusive_ptr<c10::ivalue::Future> OwnerExchange::runHook(c10d::GradBucket& bucket) {
  const torch::NoGradGuard no_gradients;
  const auto& flat = bucket.getBuffer();
  const SideStream::Scope beside(stream_, flat.device());
  Halves parts;
  c10::intrusive_ptr<c10d::Work> work;
  if (whole_) {
    flat.mul_(0.5);
    std::vector<at::Tensor> all{flat};
    work = state_->allreduce(all);
  } else {
    parts = halves(bucket);
    work = exchange(parts);
  }
  const auto add = [flat, parts = std::move(parts)] {
    const torch::NoGradGuard without_gradients;
    if (!parts.own.empty()) {
      at::_foreach_mul_(parts.own, 0.5);
      at::_foreach_add_(parts.own, parts.added);
    }
    return c10::IValue(flat);
  };
  if (flat.is_cpu()) {
    return work->getFuture()->then(
        [add](c10::ivalue::Future& done) {
          done.value();  // throws where the exchange has failed
          return add();
        },
        c10::TensorType::get());
  }
  auto done = c10::make_intrusive<c10::ivalue::Future>(c10::TensorType::get(), std::vector{flat.device()});
  work->wait();  // the stream does
  done->markCompleted(add());
  return done;
}

}  // namespace ddprun
