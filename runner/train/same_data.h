// SPDX-License-Identifier: MIT
// Verifies that the ranks train on the same data: each node reads its own copy.
#pragma once

#include "comm/communicator.h"
#include "config/experiment.h"

#include <ddprun/dataset.h>

#include <array>
#include <functional>
#include <string>
#include <utility>

namespace ddprun {

inline constexpr std::array kSplitNames{std::pair(Split::kTrain, "training"), std::pair(Split::kVal, "validation"),
                                        std::pair(Split::kTest, "test")};

// Throws UserError on every rank if a rank's dataset has other sizes than rank 0's, or if trainer.sampling draws other
// samples there. Collective.
void require_same_data(const Dataset& dataset, const Experiment& experiment, Communicator& communicator);

// Throws UserError on every rank if a rank says something else of its data than rank 0. The error names the rank and
// what each of the two has: described(said, by_the_other); by default what it said. Collective.
using DescribeData = std::function<std::string(const std::string& said, const std::string& by_the_other)>;
void require_same_said(const std::string& said, Communicator& communicator, const DescribeData& described = {});

}  // namespace ddprun
