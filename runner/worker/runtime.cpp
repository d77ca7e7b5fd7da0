// SPDX-License-Identifier: MIT
#include "worker/runtime.h"

#include "comm/replicate.h"
#include "comm/stores.h"
#include "config/compose.h"
#include "config/experiment_reader.h"
#include "data/checked_split.h"
#include "data/data_form.h"
#include "plugin_host/plugin_call.h"
#include "weights/state_guard.h"

#include <ddprun/error.h>
#include <ddprun/image_store.h>

#include <ATen/Context.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

namespace ddprun {
namespace {

// Selects deterministic kernels only, or an error from operations without one; otherwise cuDNN picks the fastest by
// trying. New tensors are not filled: nothing here reads uninitialised memory.
void set_determinism(bool deterministic) {
  auto& context = at::globalContext();
  context.setDeterministicAlgorithms(deterministic, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(false);
  context.setDeterministicCuDNN(deterministic);
  context.setBenchmarkCuDNN(!deterministic);
  if (deterministic) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
}

// Removes the places: the frozen file may lie in a temporary folder. The launcher knows where the user wrote each key.
void forget_places(Value& value) {
  value.set_origin({});
  for (auto& item : value.items()) forget_places(item);
  for (auto& entry : value.entries()) {
    entry.key_origin = {};
    forget_places(entry.value);
  }
}

Experiment frozen_experiment(const WorkerPlace& place) {
  std::vector<std::string> problems;
  auto config = load_yaml(place.config);
  forget_places(config);
  auto experiment = read_experiment(std::move(config), problems);
  if (!problems.empty()) throw UserError(place.config.string() + " was changed: " + problems.front());
  auto& trainer = experiment.trainer;
  trainer.global_batch = trainer.global_batch_of(place.attempt.world_size * std::max<int64_t>(1, place.gpus));
  return experiment;
}

// Loads the GPU's backend. Call it after set_determinism: NCCL's process group checks that when it is created and then
// excludes algorithms; cuBLAS checks it at its first use.
std::shared_ptr<DeviceBackend> load_backend(const WorkerPlace& place, const TrainerConfig& config,
                                            const Runtime::LoadBackend& load) {
  set_determinism(config.deterministic);
  return place.device == Device::kGpu ? load(place.gpu, place.gpus) : nullptr;
}

CommunicatorOptions communicator_options(const Runtime& runtime) {
  const auto& place = runtime.place;
  CommunicatorOptions options{
      .world = {place.rank, place.attempt.world_size, place.local_rank, place.local_world_size, place.machines},
      .backend = runtime.backend,
      .gloo = runtime.experiment.launch.backend == Backend::kGloo,
      .timeout_seconds = runtime.experiment.launch.timeout_seconds,
      .address = place.address};
  if (place.attempt.world_size > 1)
    options.store = ddprun::open_store(place.store, place.attempt.world_size, options.timeout_seconds);
  return options;
}

}  // namespace

Runtime::Runtime(WorkerPlace worker_place, const OnActivity& on_activity, const LoadBackend& load)
    : place(std::move(worker_place)),
      experiment(frozen_experiment(place)),
      plugins(plugin_search_path(experiment.plugin_path)),
      backend(load_backend(place, experiment.trainer, load)),
      device(backend ? backend->device() : c10::Device(c10::kCPU)),
      communicator(communicator_options(*this)),
      layers_(experiment.trainer.fused_layers) {
  if (on_activity) on_activity(Activity::kConnecting);
  communicator.connect_gpus();
  if (on_activity) on_activity(Activity::kStarting);
}

void Runtime::build(const std::function<void(Model&)>& fill) {
  set_product_precision(experiment.trainer);
  dataset = plugins.make_dataset(experiment.dataset);
  start_dataset();
  model = prepared_model();
  fill(*model);
  model->to(device);
  precision = Precision(experiment.trainer, device.type());
  precision.convert(*model);
  verify_same_model(*model, communicator);
  broadcast_state(*model, communicator);
}

void Runtime::start_dataset() {
  if (!place.noted.empty()) {
    const auto noted = read_data_form(place.noted);
    if (noted && start_as_noted(*dataset, *noted)) return;
  }
  in_plugin({"dataset", "start"}, [&] { dataset->start(); });
}

void Runtime::set_memory_format(MemoryFormat memory_format) {
  precision.set_memory_format(memory_format);
  precision.convert(*model);
}

std::shared_ptr<Model> Runtime::prepared_model() const {
  seed_generators(experiment.seed, 0, backend.get());
  auto prepared = plugins.make_model(experiment.model);
  const auto data = in_plugin({"dataset", "spec"}, [&] { return dataset->spec(); });
  in_plugin({"model", "prepare"}, [&] { prepared->prepare(data); });
  return prepared;
}

std::shared_ptr<DataParallel> Runtime::data_parallel() const {
  if (experiment.trainer.strategy != Strategy::kDp) return nullptr;
  const StateGuard kept({}, backend.get());
  std::vector<DataParallel::Copy> copies{{model, device}};
  const auto devices = backend ? backend->devices() : std::vector{device};
  for (size_t i = 1; i < devices.size(); ++i) {
    copies.push_back({prepared_model(), devices[i]});
    copies.back().model->to(devices[i]);
    precision.convert(*copies.back().model);
  }
  return std::make_shared<DataParallel>(std::move(copies));
}

c10::intrusive_ptr<c10d::Store> Runtime::open_store(const std::string& prefix) const {
  if (place.attempt.world_size == 1) return nullptr;
  auto store = ddprun::open_store(place.store, place.attempt.world_size, experiment.launch.timeout_seconds);
  return c10::make_intrusive<c10d::PrefixStore>(prefix, std::move(store));
}

SplitImages Runtime::images() const {
  return {images_of(Split::kTrain), images_of(Split::kVal), images_of(Split::kTest)};
}

std::shared_ptr<const ImageBatcher> Runtime::images_of(Split split) const {
  constexpr int64_t kShareOfFree = 4;
  const auto source = in_plugin({"dataset", "images"}, [&] {
    const auto lent = dataset->images(split);
    if (lent.store) CheckedSplit(*dataset, split).check(*lent.store);
    return lent;
  });
  if (!source.store || source.store->size() == 0 || experiment.resident == Resident::kOff) return nullptr;
  const bool fits = backend && image_bytes(source) <= backend->memory().free / kShareOfFree;
  if (fits && experiment.resident == Resident::kAuto) return backend->hold_images(source, precision.image_form());
  return make_image_batcher(source, precision.image_form());
}

std::shared_ptr<Objective> Runtime::objective() const {
  auto objective = make_objective(experiment.objective, plugins);
  const auto data = in_plugin({"dataset", "spec"}, [&] { return dataset->spec(); });
  in_plugin({"objective", "prepare"}, [&] { objective->prepare(data); });
  return objective;
}

}  // namespace ddprun
