// SPDX-License-Identifier: MIT
// Renders training samples for pages: each as it is stored, and as training sees it in some epochs.
#pragma once

#include "data/data_text.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <vector>

namespace ddprun {

// Returns a section of a page (report/page.h) with the samples that training comes to first: of pictures a group for
// each class, {"title": "cat", "note": "30 samples", "samples": [{"id": 17, "stored": "data:image/png...", "views":
// ["data:..."]}]}; of others {"id", "input": "0.1, 0.5", "target": "0.3"}. `seed` is the experiment's.
nlohmann::ordered_json samples_section(const Dataset& dataset, const DataSurvey& survey, uint64_t seed);

// Returns [{"id": 17, "target": "cat", "stored": "data:image/png...", "views": ["data:..."]}] of these samples in this
// order: as they are stored and, where training changes any, as it sees them in `epoch`, counted from 0. Those that are
// not images are {"id", "input", "target"}.
nlohmann::ordered_json shown_samples(const Dataset& dataset, const std::vector<int64_t>& numbers, uint64_t seed,
                                     int64_t epoch);

// The same of samples of any split, as they are stored.
nlohmann::ordered_json stored_samples(const Dataset& dataset, Split split, const std::vector<int64_t>& numbers);

}  // namespace ddprun
