// SPDX-License-Identifier: MIT
// What a process says when a signal of its own making kills it: SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT.
#pragma once

#include <filesystem>
#include <string>

namespace ddprun {

// From now on these signals write the plugin's hook that the thread was in and the calls that led there to standard error, behind
// `who`, and of rank `rank` the hook to the file where launchers look for failures, if there is one; then they kill the process
// as they would have. Call it once. It does nothing with a sanitizer, which has handlers of its own.
void report_crashes(const std::string& who, const std::filesystem::path& failure = {}, int rank = 0);

}  // namespace ddprun
