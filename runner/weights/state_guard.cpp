// SPDX-License-Identifier: MIT
#include "weights/state_guard.h"

#include <ddprun/random.h>

#include <ATen/CPUGeneratorImpl.h>
#include <torch/types.h>

#include <mutex>

namespace ddprun {

StateGuard::StateGuard(std::vector<at::Tensor> buffers, DeviceBackend* backend)
    : buffers_(std::move(buffers)), backend_(backend), generators_(rng_state(backend)) {
  for (const auto& buffer : buffers_) values_.push_back(buffer.clone());
}

StateGuard::~StateGuard() {
  if (!kept_) return;
  const torch::NoGradGuard no_gradients;
  for (size_t i = 0; i < values_.size(); ++i) buffers_[i].copy_(values_[i]);
  set_rng_state(generators_, backend_);
}

namespace {

at::Tensor state_of(at::Generator generator) {
  std::scoped_lock lock(generator.mutex());
  return generator.get_state();
}

void set_state(at::Generator generator, const at::Tensor& state) {
  std::scoped_lock lock(generator.mutex());
  generator.set_state(state);
}

void seed_generator(at::Generator generator, uint64_t seed) {
  std::scoped_lock lock(generator.mutex());
  generator.set_current_seed(seed);
}

std::string key_of(size_t device) { return device == 0 ? "device" : "device_" + std::to_string(device); }

std::vector<at::Generator> device_generators(const DeviceBackend* backend) {
  std::vector<at::Generator> generators;
  if (!backend) return generators;
  for (const auto device : backend->devices()) generators.push_back(backend->generator(device));
  return generators;
}

// Returns a rank's seed. Rank 0 keeps the lower half of the seed, which is all that the CPU's generator uses; the GPUs'
// use the whole.
uint64_t seed_of(uint64_t seed, int64_t rank) {
  constexpr uint64_t kRankStream = 0x72616E6B;  // "rank"; differs from the stream of the sample order
  const uint64_t draw = RandomStream(seed, kRankStream, static_cast<uint32_t>(rank)).next();
  return (draw << 32) ^ seed ^ (rank == 0 ? 0 : draw);
}

}  // namespace

TensorDict rng_state(const DeviceBackend* backend) {
  TensorDict states{{"cpu", state_of(at::detail::getDefaultCPUGenerator())}};
  const auto devices = device_generators(backend);
  for (size_t i = 0; i < devices.size(); ++i) states[key_of(i)] = state_of(devices[i]);
  return states;
}

void set_rng_state(const TensorDict& state, const DeviceBackend* backend) {
  if (state.contains("cpu")) set_state(at::detail::getDefaultCPUGenerator(), state.at("cpu"));
  const auto devices = device_generators(backend);
  for (size_t i = 0; i < devices.size(); ++i) {
    if (state.contains(key_of(i))) set_state(devices[i], state.at(key_of(i)));
  }
}

void seed_generators(uint64_t seed, int64_t rank, const DeviceBackend* backend) {
  seed_generator(at::detail::getDefaultCPUGenerator(), seed_of(seed, rank));
  for (int64_t own = rank; const auto& generator : device_generators(backend)) {
    seed_generator(generator, seed_of(seed, own++));
  }
}

void seed_shard(uint64_t seed, int64_t step, int64_t shard, const DeviceBackend* backend) {
  constexpr uint64_t kShardStream = 0x7368617264000000;  // "shard", with room for steps
  RandomStream random(seed, kShardStream ^ static_cast<uint64_t>(step), static_cast<uint32_t>(shard));
  const uint64_t high = random.next(), own = (high << 32) | random.next();
  seed_generator(at::detail::getDefaultCPUGenerator(), own);
  for (const auto& generator : device_generators(backend)) seed_generator(generator, own);
}

}  // namespace ddprun
