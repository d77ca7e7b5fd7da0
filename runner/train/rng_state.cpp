// SPDX-License-Identifier: MIT
#include "train/rng_state.h"

#include <ddprun/random.h>

#include <ATen/CPUGeneratorImpl.h>

#include <mutex>

namespace ddprun {
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

// Rank 0 keeps the seed's lower half, which is all that the CPU's generator looks at; the GPUs' take the whole.
uint64_t seed_of(uint64_t seed, int64_t rank) {
  constexpr uint64_t kRankStream = 0x72616E6B;  // "rank": apart from the draws of the sample order
  const uint64_t draw = RandomStream(seed, kRankStream, static_cast<uint32_t>(rank)).next();
  return (draw << 32) ^ seed ^ (rank == 0 ? 0 : draw);
}

}  // namespace

TensorDict rng_state(const DeviceBackend* backend) {
  TensorDict states{{"cpu", state_of(at::detail::getDefaultCPUGenerator())}};
  if (backend) states["device"] = state_of(backend->generator());
  return states;
}

void set_rng_state(const TensorDict& state, const DeviceBackend* backend) {
  if (state.contains("cpu")) set_state(at::detail::getDefaultCPUGenerator(), state.at("cpu"));
  if (backend && state.contains("device")) set_state(backend->generator(), state.at("device"));
}

void seed_generators(uint64_t seed, int64_t rank, const DeviceBackend* backend) {
  const auto own = seed_of(seed, rank);
  seed_generator(at::detail::getDefaultCPUGenerator(), own);
  if (backend) seed_generator(backend->generator(), own);
}

}  // namespace ddprun
