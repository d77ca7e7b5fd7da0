// SPDX-License-Identifier: MIT
#include "features/record/step_record.h"

#include "base/digest_text.h"
#include "base/log.h"

#include <ddprun/error.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <utility>

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr auto kFolder = "records";

double number_of(const Json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

Json json_of(const TensorNote& note) {
  return Json::array({note.form, digest_text(note.digest), note.largest, note.finite});
}

TensorNote tensor_from(const Json& json) {
  return {.form = json.at(0),
          .digest = digest_from(json.at(1).get<std::string>()),
          .largest = json.at(2),
          .finite = json.at(3)};
}

Json json_of(const OperatorNote& note) {
  Json json = Json::array({note.name, note.parameters, note.line});
  for (const auto& result : note.results) json.push_back(json_of(result));
  return json;
}

OperatorNote operator_from(const Json& json) {
  OperatorNote note{.name = json.at(0), .parameters = json.at(1), .line = json.at(2)};
  for (size_t i = 3; i < json.size(); ++i) note.results.push_back(tensor_from(json[i]));
  return note;
}

Json json_of(const PartNote& part) {
  Json samples = Json::array(), operators = Json::array();
  for (const auto& sample : part.samples)
    samples.push_back({sample.number, digest_text(sample.digest), sample.loss ? Json(*sample.loss) : Json("none")});
  for (const auto& one : part.operators) operators.push_back(json_of(one));
  return {{"rank", part.rank},     {"number", part.number},         {"loss", part.loss},
          {"weight", part.weight}, {"samples", std::move(samples)}, {"operators", std::move(operators)}};
}

PartNote part_from(const Json& json) {
  PartNote part{.rank = json.at("rank"),
                .number = json.at("number"),
                .loss = number_of(json.at("loss")),
                .weight = json.at("weight")};
  for (const auto& sample : json.at("samples")) {
    part.samples.push_back({.number = sample.at(0), .digest = digest_from(sample.at(1).get<std::string>())});
    if (!sample.at(2).is_string()) part.samples.back().loss = number_of(sample.at(2));
  }
  for (const auto& one : json.at("operators")) part.operators.push_back(operator_from(one));
  return part;
}

Json json_of(const std::vector<NamedNote>& notes) {
  Json json = Json::array();
  for (const auto& note : notes) json.push_back({note.name, json_of(note.tensor), note.norm});
  return json;
}

std::vector<NamedNote> named_from(const Json& json) {
  std::vector<NamedNote> notes;
  for (const auto& one : json)
    notes.push_back({.name = one.at(0), .tensor = tensor_from(one.at(1)), .norm = number_of(one.at(2))});
  return notes;
}

// Adds what another rank, which has a share of the optimizer, has noted of that.
void add_share(std::vector<NamedNote>& notes, std::vector<NamedNote> share) {
  std::ranges::move(share, std::back_inserter(notes));
  const auto kind_and_name = [](const NamedNote& note) {
    const std::string_view name = note.name;
    const int kind = name.ends_with(" of the averages") ? 2 : name.ends_with(" of the optimizer") ? 1 : 0;
    return std::pair(kind, kind == 0 ? std::string_view() : name);
  };
  std::ranges::stable_sort(notes, {}, kind_and_name);
}

// Adds what another rank has recorded of the same step.
void join(StepRecord& record, StepRecord other) {
  std::ranges::move(other.parts, std::back_inserter(record.parts));
  if (record.gradients.empty()) record.gradients = std::move(other.gradients);
  add_share(record.begun, std::move(other.begun));
  add_share(record.left, std::move(other.left));
  if (record.losses_problem.empty()) record.losses_problem = std::move(other.losses_problem);
}

}  // namespace

double StepRecord::loss() const {
  double sum = 0, weight = 0;
  for (const auto& part : parts) {
    if (part.weight == 0) continue;  // its mean of nothing is not a number
    sum += part.loss * part.weight;
    weight += part.weight;
  }
  return sum / weight;
}

double StepRecord::gradient_norm() const {
  double squares = 0;
  for (const auto& gradient : gradients) squares += gradient.norm * gradient.norm;
  return std::sqrt(squares);
}

Json to_json(const StepRecord& record) {
  Json parts = Json::array();
  for (const auto& part : record.parts) parts.push_back(json_of(part));
  return {{"step", record.step},          {"parts", std::move(parts)},      {"gradients", json_of(record.gradients)},
          {"left", json_of(record.left)}, {"begun", json_of(record.begun)}, {"losses_problem", record.losses_problem}};
}

StepRecord record_from(const Json& json) {
  StepRecord record{.step = json.at("step")};
  for (const auto& part : json.at("parts")) record.parts.push_back(part_from(part));
  record.gradients = named_from(json.at("gradients"));
  record.left = named_from(json.at("left"));
  record.begun = named_from(json.at("begun"));
  record.losses_problem = json.at("losses_problem");
  return record;
}

fs::path record_file(const fs::path& run_dir, int64_t rank) {
  return run_dir / kFolder / log::text("rank_", rank, ".jsonl");
}

fs::path kept_tensors_file(const fs::path& run_dir, int64_t rank) {
  return run_dir / kFolder / log::text("rank_", rank, ".safetensors");
}

std::map<int64_t, StepRecord> read_records(const fs::path& run_dir) {
  std::map<int64_t, StepRecord> records;
  std::error_code error;
  for (int64_t rank = 0; fs::exists(record_file(run_dir, rank), error); ++rank) {
    std::map<int64_t, StepRecord> of_rank;  // the last one of a step counts
    std::ifstream file(record_file(run_dir, rank));
    for (std::string line; std::getline(file, line);) try {
        auto record = record_from(Json::parse(line));
        of_rank[record.step] = std::move(record);
      } catch (const std::exception& problem) {
        throw UserError(record_file(run_dir, rank).string() + " is damaged: " + problem.what());
      }
    for (auto& [step, record] : of_rank) {
      records[step].step = step;
      join(records[step], std::move(record));
    }
  }
  for (auto& [step, record] : records)
    std::ranges::sort(record.parts, {}, [](const PartNote& part) { return std::pair(part.rank, part.number); });
  return records;
}

}  // namespace ddprun
