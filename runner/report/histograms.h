// SPDX-License-Identifier: MIT
// How the numbers of each tensor were spread, over the steps.
#pragma once

#include "report/table_index.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace ddprun {

// [{"name": "weights/conv1.weight", "steps": [{"step", "min", "max", "mean", "stddev", "nonfinite", "counts",
// "edges"}]}]: of every tensor the first and the last table, and as many between them, evenly spread, as a page can
// hold. Edges that are evenly spaced are left out. Empty where there are none.
nlohmann::ordered_json shown_histograms(const TableIndex& tables, std::vector<std::string>& problems);

}  // namespace ddprun
