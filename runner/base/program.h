// SPDX-License-Identifier: MIT
// Runs other programs to their end (a scheduler's, git, a compiler), and says where this one lies and on which machine
// it runs.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

struct ProgramOptions {
  std::string input = {};       // on its standard input
  double seconds = 0;           // after that it is killed with everything it started; 0: no limit
  size_t most_bytes = 1 << 30;  // of its output; a program that writes more is killed
  bool errors = true;           // capture its standard error too
};

struct ProgramEnd {
  int exit_code = 0;   // 128 + the signal if one killed it
  std::string output;  // of both streams
  bool cut = false;    // it hit one of the limits
};

// Runs command[0], found on PATH. A time limit makes it lead its own process group with no signals blocked.
// Throws UserError if there is no such program, and std::system_error if it cannot be started.
ProgramEnd run_program(const std::vector<std::string>& command, const ProgramOptions& options = {});

// The files that a program gets as its standard streams.
struct ProgramStreams {
  int input, output, errors;
};

// Signals to our group reach it; in a group of its own, those of a terminal do not, and it blocks none; in a session of
// its own, it also ignores none, and has no other file open, not even one that we were started with.
enum class ProgramGroup { kOurs, kOwn, kOwnSession };

// Starts a program, looked up on PATH. Returns its id; the caller reaps it. Throws as run_program() does.
pid_t start_program(const std::vector<std::string>& command, const ProgramStreams& streams, ProgramGroup group);

// Reads what a child writes, and reaps it. At a limit it is killed, with its group where it leads one.
ProgramEnd end_of_program(pid_t child, int output, const ProgramOptions& limits);

// Returns the last line with anything on it, where programs say why they have failed; empty if there is none.
std::string last_line(const std::string& text);

// Waits for a child's end, and reaps it. Returns its exit code, 128 + the signal if one killed it; of wait_until()
// nothing if it still runs at the deadline.
int wait_for(pid_t child);
std::optional<int> wait_until(pid_t child, std::chrono::steady_clock::time_point deadline);

// Returns true if a program of this name is on PATH.
bool has_program(const std::string& name);

std::filesystem::path own_program();  // this one's file
std::filesystem::path own_library();  // the file that this code lies in: the same, or program.so beside it
bool was_replaced();                  // whether one of them has been removed, or written anew, since it was loaded

// Returns whether the CUDA libraries that were loaded with this process only pretend to have GPUs (tests/pretend_gpu),
// so that its speeds and its use of memory mean nothing.
bool gpus_are_pretended();

// Returns this machine's name.
inline std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

}  // namespace ddprun
