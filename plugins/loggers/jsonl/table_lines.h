// SPDX-License-Identifier: MIT
// Tables as objects of tables.jsonl, without the fields that all of them share.
#pragma once

#include <ddprun/logger.h>

#include <nlohmann/json.hpp>

namespace ddprun::jsonl {

using Json = nlohmann::ordered_json;

// Returns a number, or null if it is not finite.
Json number(double value);

Json counts_of(const ConfusionTable& table);              // one list per true class
Json rows_of(const PredictionTable& table, bool images);  // with the path of each image, if images are written
Json histograms_of(const HistogramTable& table);

// Returns run.json: the run at its start.
Json object_of(const RunStart& run);

}  // namespace ddprun::jsonl
