// SPDX-License-Identifier: MIT
// OpenMP's threads in a process that was forked with its libraries loaded: libgomp reads its variables at load, once.
#pragma once

#include <pthread.h>

#include <cstdlib>

namespace ddprun {

inline constexpr auto kThreadsVariable = "OMP_NUM_THREADS";

// How long OpenMP's threads turn round and round at the end of a loop before they sleep. By default that lasts
// milliseconds: on a machine that does anything else, a step then takes up to ten times as long. A short spin costs an
// idle machine nothing.
inline constexpr auto kSpinVariable = "GOMP_SPINCOUNT", kShortSpin = "1000", kWaitVariable = "OMP_WAIT_POLICY";

// Returns whether the user has chosen how threads wait, so that it is left alone.
inline bool user_sets_spin() { return std::getenv(kWaitVariable) || std::getenv(kSpinVariable); }

// Gives loops as many threads as $OMP_NUM_THREADS says: in this thread, and in all that start from now on. Does nothing
// where it is unset. Call it from the main thread, while that is the only one.
void obey_openmp_threads();

// Does as pthread_create(), `create`, for a thread that is to obey. The program replaces it for all libraries, since no
// function of OpenMP's sets the number for threads that do not exist yet. libgomp's own threads take theirs from the
// loop that they work for.
using CreateThread = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
int create_thread_with_its_number(CreateThread* create, pthread_t* thread, const pthread_attr_t* attributes,
                                  void* (*routine)(void*), void* argument);

}  // namespace ddprun
