// SPDX-License-Identifier: MIT
// What a process says of itself when a signal of its own making kills it, and when its launcher asks where it stands.
#pragma once

#include <filesystem>
#include <string>

namespace ddprun {

// From now on SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT write what the thread was doing (base/current_op.h) and the
// calls that led there to standard error, behind `who`, and of rank `rank` the plugin's hook to the file where
// launchers look for failures, if there is one; then they kill the process as they would have, and so does SIGQUIT,
// with a word. Call it once. It does nothing with a sanitizer, which has handlers of its own.
void install_crash_handler(const std::string& who, const std::filesystem::path& failure = {}, int rank = 0);

// From now on exit() and _exit() in a plugin's hook end the process with 1, and are told in the same way: a library
// that gives up so must not pass for a task that is done. In a worker, which ends otherwise, so does exit() anywhere. A
// process that a hook has forked ends as it likes. After install_crash_handler; call it once.
void refuse_exit(bool anywhere);

// From now on this process answers its launcher (launch/worker.h) in this file, and writes the calls that led
// there to standard error where it does not wait for other ranks. After install_crash_handler; call it once.
void answer_launcher(const std::filesystem::path& file);

// An eventfd that each question adds 1 to; -1: none. Whoever waits for it can do what a handler may not.
void wake_when_asked(int event);

}  // namespace ddprun
