// SPDX-License-Identifier: MIT
#include "checkpoint/background_saver.h"

#include <ATen/ATen.h>

#include <pthread.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace ddprun {

struct BackgroundSaver::Progress {
  std::mutex mutex;
  std::condition_variable changed;
  int points = 0, seen = -1;
  bool ended = false;
  std::exception_ptr failure;

  void reached() {
    const std::scoped_lock lock(mutex);
    ++points;
    changed.notify_all();
  }

  // Waits until the save has progressed since the last call; returns whether it has ended.
  bool await_another_point() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return ended || points != seen; });
    seen = points;
    return ended;
  }

  void end(std::exception_ptr how) {
    const std::scoped_lock lock(mutex);
    ended = true;
    failure = std::move(how);
    changed.notify_all();
  }
};

void BackgroundSaver::start(Checkpoint checkpoint, bool best, std::function<void()> before_it_counts) {
  if (progress_) throw std::logic_error("BackgroundSaver: a save is under way");
  progress_ = std::make_shared<Progress>();
  writer_->set_save_observer(
      [progress = progress_, observer = observer_, step = checkpoint.step](std::string_view point) {
        progress->reached();
        if (observer) observer(point, step);
      });
  std::thread thread([writer = writer_, progress = progress_, checkpoint = std::move(checkpoint), best,
                      before_it_counts = std::move(before_it_counts)] {
    std::exception_ptr failure;
    try {
      writer->save(checkpoint, best, before_it_counts);
    } catch (...) {
      failure = std::current_exception();
    }
    progress->end(failure);
  });
  pthread_setname_np(thread.native_handle(), "ddprun_save");
  thread.detach();
}

void BackgroundSaver::wait(const std::function<void()>& alive) {
  const auto progress = std::exchange(progress_, nullptr);
  if (!progress) return;
  while (!progress->await_another_point()) {
    if (alive) alive();
  }
  if (progress->failure) std::rethrow_exception(progress->failure);
  const auto& warnings = writer_->warnings();
  warnings_.insert(warnings_.end(), warnings.begin(), warnings.end());
}

bool BackgroundSaver::failed() const {
  if (!progress_) return false;
  const std::scoped_lock lock(progress_->mutex);
  return progress_->failure != nullptr;
}

namespace {

bool fits(const at::Tensor& place, const at::Tensor& tensor) {
  return place.sizes() == tensor.sizes() && place.strides() == tensor.strides() && place.dtype() == tensor.dtype();
}

void copy_into(TensorDict& places, const TensorDict& live) {
  std::erase_if(places, [&](const auto& place) { return !live.contains(place.first); });
  for (const auto& [name, tensor] : live) {
    auto& place = places[name];
    const auto source = tensor.detach();
    if (!place.defined() || !fits(place, source)) place = at::empty_like(source, source.options().device(at::kCPU));
    place.copy_(source);
  }
}

}  // namespace

Checkpoint Snapshot::take(const Checkpoint& live) {
  copy_into(model_, live.model);
  copy_into(average_, live.average);
  copy_into(optimizer_, live.optimizer);
  return {.step = live.step,
          .model = model_,
          .average = average_,
          .optimizer = optimizer_,
          .progress = live.progress,
          .ranks = live.ranks,
          .replaces = live.replaces,
          .left_out = live.left_out};
}

}  // namespace ddprun
