// SPDX-License-Identifier: MIT
// Tables as objects of tables.jsonl, without what all of them begin with.
#pragma once

#include "line_file.h"

#include <ddprun/logger.h>

namespace ddprun::jsonl {

// A number that is not finite is null.
Json number(double value);

Json counts_of(const ConfusionTable& table);              // a list for each class that is the truth
Json rows_of(const PredictionTable& table, bool images);  // with the path of each image, where images are written
Json histograms_of(const HistogramTable& table);
Json rows_of(const RankTable& table);

// run.json: the run at its start, for those who watch it.
Json object_of(const RunStart& run);

}  // namespace ddprun::jsonl
