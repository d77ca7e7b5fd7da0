// SPDX-License-Identifier: MIT
// The limits of one request to MLflow: 1000 metrics, 100 params, 100 tags, 1000 in all, a megabyte.
#pragma once

#include "json.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ddprun::mlflow {

// Returns a number as MLflow reads it: NaN and infinities are words.
Json metric_value(double value);

// A metric, a param or a tag, in the form that the request needs.
struct Item {
  enum class Kind { kMetric, kParam, kTag };

  static Item metric(const std::string& key, const Json& value, int64_t time_ms,
                     int64_t step);  // as returned by metric_value
  static Item param(const std::string& key, const std::string& value);
  static Item tag(const std::string& key, const std::string& value);

  std::string key() const { return json["key"].get<std::string>(); }

  Kind kind = Kind::kMetric;
  Json json;
};

// Returns the first of `items` that fit into one request, at least one.
std::span<const Item> first_batch(std::span<const Item> items);

// Returns the body of that request; without items it changes nothing, but tests whether the run can be written to.
std::string batch_request(const std::string& run_id, std::span<const Item> items);

}  // namespace ddprun::mlflow
