// SPDX-License-Identifier: MIT
// How glibc's allocator treats the memory of this process.
#pragma once

namespace ddprun {

// Makes glibc keep freed memory. By default it returns blocks of more than 32 MB to the kernel at every free, and a
// training step frees all its activations: the page faults of allocating them again cost up to half of the step.
// DDPRUN_ALLOCATOR=default leaves glibc's settings as they are, to measure the difference (docs/benchmarks.md).
void keep_freed_memory();

// For what is computed once: large blocks that are allocated while it lives go back to the kernel when they are freed,
// so that the heap does not grow, and training does not spread over it. Does nothing unless freed memory is kept. It
// concerns all threads; only one may exist.
class ReturnedMemory {
 public:
  ReturnedMemory();
  ~ReturnedMemory();
  ReturnedMemory(const ReturnedMemory&) = delete;
  ReturnedMemory& operator=(const ReturnedMemory&) = delete;
};

}  // namespace ddprun
