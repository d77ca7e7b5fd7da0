// SPDX-License-Identifier: MIT
// Training samples for the page of `ddprun data`: each as it is stored, and as some epochs of the training see it.
#pragma once

#include "data/data_text.h"

#include <nlohmann/json.hpp>

#include <cstdint>

namespace ddprun {

// [{"label": 3, "samples": [{"id": 17, "stored": "data:image/png...", "views": ["data:..."]}]}]: a group for each
// class, with the samples that the training comes to first; one group without a label where there are no classes. Of
// samples that are no images
// {"id", "values": "0.1, 0.5", "target": "0.3"}. `seed` is the experiment's.
nlohmann::ordered_json shown_samples(const Dataset& dataset, const DataSurvey& survey, uint64_t seed);

}  // namespace ddprun
