// SPDX-License-Identifier: MIT
// A collective that failed: a rank has died or hangs, and the group is of no further use.
#pragma once

#include <stdexcept>

namespace ddprun {

class CommunicationError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace ddprun
