// SPDX-License-Identifier: MIT
// A failed collective: a rank has died or hangs, and the process group is unusable.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>

namespace ddprun {

class CommunicationError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Returns the message of a c10d, Gloo or NCCL exception in one line: without its backtrace, with the reason that NCCL
// puts after its general words, and for known reasons with what to do.
std::string cause_of(const std::exception& error);

}  // namespace ddprun
