// SPDX-License-Identifier: MIT
#include "base/openmp_threads.h"

#include <dlfcn.h>

#include <cstdlib>
#include <memory>

namespace ddprun {
namespace {

void (*set_threads)(int) = nullptr;  // omp_set_num_threads(), which sets the number for loops of the calling thread
const void* libgomp = nullptr;       // where it is mapped
int threads = 0;                     // of loops in new threads; 0: as libgomp has read it

struct Start {
  void* (*routine)(void*);
  void* argument;
};

void* start_with_threads(void* start) {
  const auto own = *std::unique_ptr<Start>(static_cast<Start*>(start));
  set_threads(threads);
  return own.routine(own.argument);
}

// Returns where the library of this function is mapped.
template <class Function>
const void* library_of(Function* function) {
  Dl_info info{};
  return ::dladdr(reinterpret_cast<void*>(function), &info) != 0 ? info.dli_fbase : nullptr;
}

}  // namespace

void obey_openmp_threads() {
  const char* wanted = std::getenv(kThreadsVariable);
  set_threads = reinterpret_cast<void (*)(int)>(::dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  if (!wanted || std::atoi(wanted) < 1 || !set_threads) return;
  libgomp = library_of(set_threads);
  threads = std::atoi(wanted);
  set_threads(threads);
}

int create_thread_with_its_number(CreateThread* create, pthread_t* thread, const pthread_attr_t* attributes,
                                  void* (*routine)(void*), void* argument) {
  if (threads == 0 || library_of(routine) == libgomp) return create(thread, attributes, routine, argument);
  auto start = std::make_unique<Start>(Start{routine, argument});
  const int error = create(thread, attributes, start_with_threads, start.get());
  if (error == 0) [[maybe_unused]]
    auto* const owned_by_thread = start.release();
  return error;
}

}  // namespace ddprun
