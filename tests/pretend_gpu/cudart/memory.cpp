// SPDX-License-Identifier: MIT
#include "pretend_gpu/cudart/memory.h"

#include "pretend_gpu/cudart/capture.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

namespace pretend {
namespace {

constexpr size_t kPage = size_t{2} << 20;  // a GPU's: each block begins at one
constexpr int kPoison = 0xFF;              // NaN as floating-point numbers, -1 as integers

bool poisons() {
  static const bool poisons = setting("POISON", 1) > 0;
  return poisons;
}

// Bytes that nobody holds can be neither read nor written, so work that does crashes.
void protect(char* bytes, size_t count, int protection) {
  void* made = mmap(bytes, count, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (made == MAP_FAILED) {
    log(0, "the machine has no memory for %zu bytes of a pretend GPU", count);
    std::_Exit(1);
  }
}

// The first gap that the block fits into. The device's mutex is held.
cudaError_t allocate(Device& on, size_t bytes, void** out) {
  const auto size = (bytes + kPage - 1) / kPage * kPage;
  size_t offset = 0;
  for (const auto& [begin, length] : on.blocks) {
    if (begin - offset >= size) break;
    offset = begin + length;
  }
  if (offset + size > on.total_bytes) return cudaErrorMemoryAllocation;
  on.blocks[offset] = size;
  on.used_bytes += size;
  protect(on.bytes + offset, size, PROT_READ | PROT_WRITE);
  if (poisons()) std::memset(on.bytes + offset, kPoison, size);
  *out = on.addresses + offset;
  return cudaSuccess;
}

std::mutex pinned_mutex;

std::map<const char*, size_t>& pinned() {  // begin, size
  static auto& all = *new std::map<const char*, size_t>;
  return all;
}

void pin(const void* memory, size_t bytes) {
  const std::scoped_lock lock(pinned_mutex);
  pinned()[static_cast<const char*>(memory)] = bytes;
}

// Returns the size of what was pinned there, 0 where nothing was.
size_t unpin(const void* memory) {
  const std::scoped_lock lock(pinned_mutex);
  const auto at = pinned().find(static_cast<const char*>(memory));
  if (at == pinned().end()) return 0;
  const auto size = at->second;
  pinned().erase(at);
  return size;
}

void wait_for_all_devices() {
  for (const auto& device : all_devices()) wait_for_device(*device);
}

}  // namespace

bool is_pinned(const void* address) {
  const std::scoped_lock lock(pinned_mutex);
  const auto* byte = static_cast<const char*>(address);
  auto after = pinned().upper_bound(byte);
  if (after == pinned().begin()) return false;
  --after;
  return byte < after->first + after->second;
}

int device_of(const void* address) {
  const auto* byte = static_cast<const char*>(address);
  for (const auto& device : all_devices()) {
    if (byte >= device->addresses && byte < device->addresses + device->total_bytes) return device->index;
  }
  return -1;
}

void* shadow(const void* address) {
  const int index = device_of(address);
  if (index < 0) return const_cast<void*>(address);
  return device(index).bytes + (static_cast<const char*>(address) - device(index).addresses);
}

bool is_allocated(const void* address, size_t bytes) {
  const int index = device_of(address);
  if (index < 0) return true;
  auto& on = device(index);
  const std::scoped_lock lock(on.mutex);
  const auto offset = static_cast<size_t>(static_cast<const char*>(address) - on.addresses);
  auto after = on.blocks.upper_bound(offset);
  if (after == on.blocks.begin()) return false;
  --after;
  return offset + bytes <= after->first + after->second;
}

}  // namespace pretend

using pretend::current;
using pretend::result;

extern "C" {

void* pretend_shadow(const void* address) { return pretend::shadow(address); }  // for kernels of the pretend NVRTC

// Nothing is allocated for 0 bytes, and the address is null: what libcudart does, though cuda_runtime_api.h does not
// say.
cudaError_t cudaMalloc(void** out, size_t bytes) {
  PRETEND_ENTER();
  PRETEND_UNSAFE();
  *out = nullptr;
  if (bytes == 0) return cudaSuccess;
  auto& on = current();
  pretend::trace("allocate", __func__, on.index, nullptr, bytes);
  const std::scoped_lock lock(on.mutex);
  return result(pretend::allocate(on, bytes, out));
}

// It may wait for the device, and here does (cuda_runtime_api.h, cudaFree: "may perform implicit synchronization").
cudaError_t cudaFree(void* address) {
  PRETEND_ENTER();
  PRETEND_UNSAFE();
  if (!address) return cudaSuccess;
  const int index = pretend::device_of(address);
  if (index < 0) return result(cudaErrorInvalidValue);
  auto& on = pretend::device(index);
  pretend::trace("free", __func__, index);
  wait_for_device(on);
  const std::scoped_lock lock(on.mutex);
  const auto block = on.blocks.find(static_cast<size_t>(static_cast<char*>(address) - on.addresses));
  if (block == on.blocks.end()) return result(cudaErrorInvalidValue);
  pretend::protect(on.bytes + block->first, block->second, PROT_NONE);
  on.used_bytes -= block->second;
  on.blocks.erase(block);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  PRETEND_ENTER();
  auto& on = current();
  const std::scoped_lock lock(on.mutex);
  *total = on.total_bytes;
  *free = on.total_bytes - on.used_bytes;
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** out, size_t bytes, unsigned) {
  PRETEND_ENTER();
  PRETEND_UNSAFE();
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return result(cudaErrorMemoryAllocation);
  if (pretend::poisons()) std::memset(memory, pretend::kPoison, bytes);
  pretend::trace("allocate", __func__, -1, nullptr, bytes);
  pretend::pin(memory, bytes);
  *out = memory;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* memory) {
  PRETEND_ENTER();
  PRETEND_UNSAFE();
  if (!memory) return cudaSuccess;
  pretend::trace("free", __func__, -1);
  pretend::wait_for_all_devices();
  const auto bytes = pretend::unpin(memory);
  if (bytes == 0) return result(cudaErrorInvalidValue);
  munmap(memory, bytes);
  return cudaSuccess;
}

cudaError_t cudaHostRegister(void* memory, size_t bytes, unsigned) {
  PRETEND_ENTER();
  pretend::pin(memory, bytes);
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void* memory) {
  PRETEND_ENTER();
  return result(pretend::unpin(memory) > 0 ? cudaSuccess : cudaErrorInvalidValue);
}

// Memory that CUDA did not make is of no type, which is no error (cuda_runtime_api.h, cudaPointerGetAttributes).
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  PRETEND_ENTER();
  *attributes = {};
  const int index = pretend::device_of(address);
  auto* const there = const_cast<void*>(address);
  attributes->device = std::max(index, 0);
  attributes->type = cudaMemoryTypeUnregistered;
  if (index >= 0) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->devicePointer = there;
  } else if (pretend::is_pinned(address)) {
    attributes->type = cudaMemoryTypeHost;
    attributes->hostPointer = attributes->devicePointer = there;
  }
  return cudaSuccess;
}

}  // extern "C"
