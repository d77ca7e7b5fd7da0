// SPDX-License-Identifier: MIT
// A GPU's stream beside backward, for the exchange of gradients.
#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <optional>

namespace ddprun {

// Used from the thread of backward.
class SideStream {
 public:
  // While it lives, work on this device comes after what its current stream has been given before, and beside what that
  // gets later. On the CPU it changes nothing.
  class Scope {
   public:
    Scope(SideStream& side, c10::Device device) {
      if (device.is_cpu()) return;
      const c10::impl::VirtualGuardImpl guard(device.type());
      if (!side.stream_) side.stream_ = guard.getStreamFromGlobalPool(device);
      c10::Event given(device.type());
      given.record(guard.getStream(device));
      given.block(*side.stream_);
      beside_.emplace(*side.stream_);
    }

   private:
    std::optional<c10::StreamGuard> beside_;
  };

 private:
  std::optional<c10::Stream> stream_;
};

}  // namespace ddprun
