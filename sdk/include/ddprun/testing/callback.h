// SPDX-License-Identifier: MIT
// What a callback promises. It sees a training of a small model whose weights are drawn, 4 steps for each epoch, with
// an evaluation after each epoch. Does not include <ddprun/model.h>, which takes longer to compile than all else here.
#pragma once

#include <ddprun/testing/plugin.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun::check {

struct CallbackTest {
  Maker<Callback> make;
  int64_t epochs = 6;

  // The metrics of the evaluation after an epoch, counted from 1. If null, "val/loss" is 1 / epoch, and "val/accuracy"
  // 1 - 1 / epoch.
  std::function<std::vector<std::pair<std::string, double>>(int64_t epoch)> metrics = nullptr;
};

// What a callback did: what it asked for and when ("step 8: stop: enough"), and by how much its finish() changed the
// weights, the largest of all differences.
struct CallbackRun {
  std::vector<std::string> requests;
  double weights_changed = 0;
};

// Returns what the callback does in an uninterrupted training of one worker, for a test of its own claims. Throws what
// it throws.
CallbackRun run_of(const CallbackTest& test);

// Two ranks, which see other losses of their own samples, ask for the same at every step, and end with the same
// weights.
std::string ranks_agree(const CallbackTest& test);

// A callback that is resumed after any step from state() asks for what the uninterrupted one asks for, and ends with
// the same weights bit for bit.
std::string state_round_trip(const CallbackTest& test);

// Runs all of the above; each problem carries the name of the function that found it.
std::vector<std::string> all(const CallbackTest& test);

}  // namespace ddprun::check
