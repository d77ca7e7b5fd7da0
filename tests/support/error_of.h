// SPDX-License-Identifier: MIT
#pragma once

#include <ddprun/error.h>

#include <string>

namespace ddprun {

// What the Error says that a call throws; empty where it throws none.
template <class Error = UserError, class Call>
std::string error_of(Call call) try {
  call();
  return "";
} catch (const Error& error) {
  return error.what();
}

}  // namespace ddprun
