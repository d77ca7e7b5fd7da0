// SPDX-License-Identifier: MIT
#pragma once

#include <ddprun/error.h>

#include <string>

namespace ddprun {

// What the UserError says that a call throws; empty where it throws none.
template <class Call>
std::string error_of(Call call) try {
  call();
  return "";
} catch (const UserError& error) {
  return error.what();
}

}  // namespace ddprun
