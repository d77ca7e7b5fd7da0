// SPDX-License-Identifier: MIT
// A fork server: a process that has loaded the libraries of this program and waits, so that workers and commands are
// forked from it. To load LibTorch takes ten times as long as a fork, and its tables, 60 MB, are then shared.
//
// It is forked off in the first moments of the program, while there is one thread, no OpenMP team and no GPU context.
// What it forks is a child of the process that asks (CLONE_PARENT), so that waitpid(), PR_SET_PDEATHSIG and process
// groups are as after fork() and exec(), and has a command line and an environment of its own, in /proc too. Where
// anything is missing for that, programs are exec'ed, and log::debug() says the reason once:
//
//   - the kernel has no PR_SET_MM_MAP or PR_GET_TID_ADDRESS (CONFIG_CHECKPOINT_RESTORE), or a sandbox forbids them;
//   - a variable that libraries read when they are loaded (LD_, OMP_, MKL_, ...) has another value than the server was
//     loaded with; OMP_NUM_THREADS may differ (base/openmp_threads.h);
//   - the server has more than one thread, or has ended;
//   - DDPRUN_START=exec is set, or the program has a sanitizer.
#pragma once

#include "base/spawn.h"

#include <csignal>
#include <filesystem>
#include <optional>

namespace ddprun {

// Names the socket of a process that wants this one to become its fork server.
inline constexpr auto kForkServerVariable = "DDPRUN_FORK_SERVER";

// What a forked process continues as, in place of what it was forked from.
struct ForkedCommand {
  int argc = 0;
  char** argv = nullptr;
  sigset_t blocked{};  // what it is to have blocked; it has SIGTERM and SIGUSR1 besides, as the server has
};

// Becomes a fork server for the process that has started this one with $DDPRUN_FORK_SERVER, the number of a socket, and
// ends with it. Returns nothing if there is no such variable; returns in each process that it forks.
std::optional<ForkedCommand> serve_if_asked();

// Forks a server off this process, whose child it becomes. Returns nothing in this process, whether or not it could,
// and a command in each that the server forks. Call it from the main thread, while that is the only one; spawn() and
// load_in_fork_server() may then be called from one thread.
std::optional<ForkedCommand> start_fork_server();

// Lets the server load a library while this process does something else. What fails is reported by who needs the
// library.
void load_in_fork_server(const std::filesystem::path& library);

// Does as spawn() for a command of this program. Returns nothing if it has to be exec'ed.
std::optional<pid_t> fork_from_server(const SpawnRequest& request);

}  // namespace ddprun
