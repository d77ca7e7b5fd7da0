// SPDX-License-Identifier: MIT
// A collective that failed: a rank has died or hangs, and the group is of no further use.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>

namespace ddprun {

class CommunicationError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What an exception of c10d, Gloo or NCCL says, in one line: without the calls that led there, and for NCCL the reason
// that stands behind its general words, with what to do about those that are known.
std::string cause_of(const std::exception& error);

}  // namespace ddprun
