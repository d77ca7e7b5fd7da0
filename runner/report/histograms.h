// SPDX-License-Identifier: MIT
// Prepares how the numbers of each tensor were distributed, over the steps.
#pragma once

#include "report/table_index.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace ddprun {

// Returns [{"name": "weights/conv1.weight", "steps": [{"step", "min", "max", "mean", "stddev", "nonfinite", "counts",
// "edges"}]}] with every tensor's first and last table, and as many between them, evenly spread, as a page can hold.
// Omits edges that are evenly spaced. Empty if there are none.
nlohmann::ordered_json shown_histograms(const TableIndex& tables, std::vector<std::string>& problems);

}  // namespace ddprun
