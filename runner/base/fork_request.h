// SPDX-License-Identifier: MIT
// What a fork server is asked for and what it answers, over a socket of a machine. sdk/python/ddprun/fork_server.py
// writes the same bytes.
#pragma once

#include "base/spawn.h"

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ddprun {

enum class ForkKind : uint32_t { kFork = 1, kLoad = 2 };

// What a process leaves of the one that asks for it; numbers of bits.
enum ForkFlag : uint32_t { kOwnGroup = 1, kOwnSession = 2, kDiesWithParent = 4 };

// A request as the server holds it. The process that is forked keeps it until its end: /proc shows the text.
struct ForkRequest {
  ForkKind kind = ForkKind::kFork;
  uint32_t flags = 0;
  std::string text;                       // what the pointers below point into
  std::vector<char*> words, environment;  // each with a null pointer behind the last
  const char* folder = nullptr;           // to start in; empty: the server's own
  std::vector<int> cores;                 // to run on, as far as the system lets it; empty: the server's own
  std::vector<int> blocked, ignored;      // signals
  std::vector<UniqueFd> streams;          // standard input, output and error
};

// Which process a request made, or the errno that says why it made none.
struct ForkAnswer {
  int32_t pid = 0, error = 0;
};

// Writes a request into a file in memory. kLoad has one word, a library's path. Throws std::system_error.
UniqueFd write_fork_request(ForkKind kind, uint32_t flags, const SpawnRequest& request,
                            const std::vector<int>& ignored);

// Sends the file, and the streams that belong to it. Returns false if nobody listens any more.
bool send_fork_request(int socket, const UniqueFd& file, const std::vector<int>& streams);

// Waits for a request. Returns null once nobody can send another one. Throws std::runtime_error if it is damaged.
std::unique_ptr<ForkRequest> receive_fork_request(int socket);

bool send_fork_answer(int socket, ForkAnswer answer);

// Returns nothing if the server has ended and the process that was asked for does not exist.
std::optional<ForkAnswer> receive_fork_answer(int socket);

}  // namespace ddprun
