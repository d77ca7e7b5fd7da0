// SPDX-License-Identifier: MIT
#include "data/copy_stream.h"

#include <ATen/ATen.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

namespace ddprun {
namespace {

// The pool hands out the same streams again and again; the current one may be among them.
c10::Stream stream_beside_the_current_one(c10::Device device) {
  const c10::impl::VirtualGuardImpl streams(device.type());
  auto stream = streams.getStreamFromGlobalPool(device);
  while (stream == streams.getStream(device)) stream = streams.getStreamFromGlobalPool(device);
  return stream;
}

}  // namespace

CopyStream::CopyStream(c10::Device device) : device_(device) {
  if (!device.is_cuda()) return;
  stream_ = stream_beside_the_current_one(device);
  done_.emplace(device.type());
}

Batch CopyStream::copied(Batch batch) {
  if (!stream_) return batch;
  {
    const c10::StreamGuard beside(*stream_);
    batch.replace_tensors([&](const at::Tensor& tensor) { return tensor.to(device_, /*non_blocking=*/true); });
    done_->record(*stream_);
  }
  const auto current = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  done_->block(current);
  batch.replace_tensors([&](const at::Tensor& tensor) {
    tensor.record_stream(current);  // its memory may be used again once that stream is past it
    return tensor;
  });
  return batch;
}

}  // namespace ddprun
