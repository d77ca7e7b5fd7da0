// SPDX-License-Identifier: MIT
// How often tests with drawn events draw them: DDPRUN_SEED=N DDPRUN_SIMULATIONS=1 plays one again.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace ddprun::testing {

struct Seeds {
  int64_t first, end;  // one behind the last
};

// Returns `usual` seeds from 1 on, unless the environment says otherwise.
inline Seeds seeds(int64_t usual) {
  const auto number = [](const char* variable, int64_t otherwise) -> int64_t {
    const char* text = std::getenv(variable);
    return text ? std::atoll(text) : otherwise;
  };
  const auto first = number("DDPRUN_SEED", 1);
  return {first, first + number("DDPRUN_SIMULATIONS", usual)};
}

}  // namespace ddprun::testing
