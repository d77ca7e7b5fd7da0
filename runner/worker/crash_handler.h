// SPDX-License-Identifier: MIT
// Reports what a process was doing when it crashes, and when its launcher asks for it.
#pragma once

#include <filesystem>
#include <string>

namespace ddprun {

// Makes SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT write what the thread was doing (base/current_op.h) and its call
// stack to standard error, after `who`. On rank `rank` they also write the plugin's hook to the failure file where
// launchers look for it, if there is one. Then they kill the process as they would have, and so does SIGQUIT, with a
// message. Call it once. Does nothing with a sanitizer, which has its own handlers.
void install_crash_handler(const std::string& who, const std::filesystem::path& failure = {}, int rank = 0);

// Makes exit() and _exit() in a plugin's hook end the process with 1, and reports it in the same way: a library that
// gives up this way must not count as a finished task. In a worker, which ends differently, exit() anywhere does so. A
// process that a hook forked ends as it likes. Call it once, after install_crash_handler.
void refuse_exit(bool anywhere);

// Makes the process end with this code, whatever its libraries' threads throw from now on: its work is done. Gloo's
// thread throws when other ranks have ended and a child of a plugin's still holds the connections.
void ignore_throws_of_the_end(int code);

// Makes this process answer its launcher (launch/worker_handle.h) in this file, and write its call stack to standard
// error if it is not waiting for other ranks. Call it once, after install_crash_handler.
void answer_launcher(const std::filesystem::path& file);

// Sets an eventfd that each question adds 1 to; -1: none. Its reader can do what a signal handler may not.
void wake_when_asked(int event);

}  // namespace ddprun
