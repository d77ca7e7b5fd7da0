// SPDX-License-Identifier: MIT
#include "base/allocator.h"

#include <malloc.h>

#include <cstdlib>
#include <string_view>

namespace ddprun {
namespace {

constexpr int kNever = 1 << 30, kLarge = 1 << 17;  // bytes; the second is glibc's own default

bool keeps = false;

}  // namespace

void keep_freed_memory() {
  const char* allocator = std::getenv("DDPRUN_ALLOCATOR");
  if (allocator && std::string_view(allocator) == "default") return;
  keeps = true;
  mallopt(M_MMAP_THRESHOLD, kNever);
  mallopt(M_TRIM_THRESHOLD, kNever);
  mallopt(M_TOP_PAD, 64 << 20);
}

ReturnedMemory::ReturnedMemory() {
  if (keeps) mallopt(M_MMAP_THRESHOLD, kLarge);
}

ReturnedMemory::~ReturnedMemory() {
  if (keeps) mallopt(M_MMAP_THRESHOLD, kNever);
}

}  // namespace ddprun
