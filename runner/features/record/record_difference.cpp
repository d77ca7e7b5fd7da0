// SPDX-License-Identifier: MIT
#include "features/record/record_difference.h"

#include "base/log.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace ddprun {
namespace {

constexpr double kOdd = 100;  // times the usual
constexpr size_t kMostNamed = 5;

// Returns "3, 17, 20 and 5 more".
std::string list_of(const std::vector<int64_t>& numbers) {
  std::string text;
  const auto named = std::min(numbers.size(), kMostNamed);
  for (size_t i = 0; i < named; ++i) text += log::text(i == 0 ? "" : ", ", numbers[i]);
  return numbers.size() > named ? log::text(text, " and ", numbers.size() - named, " more") : text;
}

std::map<int64_t, uint64_t> samples_of(const StepRecord& record) {
  std::map<int64_t, uint64_t> samples;
  for (const auto& part : record.parts)
    for (const auto& sample : part.samples) samples[sample.number] = sample.digest;
  return samples;
}

std::string samples_difference(const StepRecord& first, const StepRecord& second) {
  const auto ours = samples_of(first), theirs = samples_of(second);
  std::vector<int64_t> alone, otherwise;
  for (const auto& [number, digest] : ours) {
    const auto found = theirs.find(number);
    if (found == theirs.end()) alone.push_back(number);
    if (found != theirs.end() && found->second != digest) otherwise.push_back(number);
  }
  std::vector<int64_t> others;
  for (const auto& [number, digest] : theirs)
    if (!ours.contains(number)) others.push_back(number);
  if (!alone.empty() || !others.empty())
    return log::text("it trains on other samples: ", alone.empty() ? "none" : list_of(alone), " only in the first, ",
                     others.empty() ? "none" : list_of(others), " only in the second");
  if (otherwise.empty()) return "";
  return log::text("the network is given other numbers for ", otherwise.size(), " of ", ours.size(),
                   " samples (input, target or extras): ", list_of(otherwise));
}

bool is_cut_alike(const PartNote& first, const PartNote& second) {
  return first.rank == second.rank && first.number == second.number &&
         std::ranges::equal(first.samples, second.samples, {}, &SampleNote::number, &SampleNote::number);
}

std::string name_of(const OperatorNote& note) {
  return note.name + (note.line.empty() ? "" : " at " + note.line) +
         (note.parameters.empty() ? "" : " (" + note.parameters + ")");
}

std::string forms_of(const OperatorNote& note) {
  std::string text;
  for (const auto& result : note.results) text += (text.empty() ? "" : ", ") + result.form;
  return text;
}

std::optional<RecordDifference> difference_of(const PartNote& first, const PartNote& second) {
  const auto [one, other] = std::ranges::mismatch(first.operators, second.operators);
  const auto number = one - first.operators.begin();
  const auto place = log::text(part_text(first), ", operator ", number + 1, " of ", first.operators.size(), ": ");
  const bool first_ends = one == first.operators.end(), second_ends = other == second.operators.end();
  if (first_ends != second_ends)
    return RecordDifference{.text = place + (first_ends ? "only the second continues, with " + name_of(*other)
                                                        : "only the first continues, with " + name_of(*one))};
  if (!first_ends && (name_of(*one) != name_of(*other)))
    return RecordDifference{.text = place + name_of(*one) + " in the first is " + name_of(*other) + " in the second"};
  if (!first_ends && forms_of(*one) != forms_of(*other))
    return RecordDifference{.text = place + name_of(*one) + " gives " + forms_of(*one) + " in the first and " +
                                    forms_of(*other) + " in the second"};
  if (!first_ends)
    return RecordDifference{.text = place + name_of(*one) + ", which gives " + forms_of(*one),
                            .results = OperatorPlace{first.rank, first.number, number}};
  if (first.loss != second.loss && !(first.loss != first.loss && second.loss != second.loss))
    return RecordDifference{.text = log::text(part_text(first), ": the loss, ", first.loss, " and ", second.loss)};
  return std::nullopt;
}

std::string names_difference(const std::vector<NamedNote>& first, const std::vector<NamedNote>& second) {
  const auto [one, other] = std::ranges::mismatch(first, second, {}, &NamedNote::name, &NamedNote::name);
  const auto name = [](auto note, auto end) { return note == end ? std::string("nothing") : note->name; };
  return "the first has " + name(one, first.end()) + " where the second has " + name(other, second.end());
}

// Returns how two lists of tensors differ; empty if they do not.
std::string named_difference(const std::vector<NamedNote>& first, const std::vector<NamedNote>& second) {
  if (!std::ranges::equal(first, second, {}, &NamedNote::name, &NamedNote::name))
    return names_difference(first, second);
  const NamedNote* found = nullptr;
  int64_t count = 0;
  for (size_t i = 0; i < first.size(); ++i) {
    if (first[i].tensor == second[i].tensor) continue;
    if (count++ == 0) found = &first[i];
  }
  return found ? log::text(found->name, count > 1 ? log::text(" and ", count - 1, " more") : "", " of ", first.size(),
                           " tensors")
               : "";
}

// Returns the largest numbers that this operator gave in other steps, for each of its results; 0 where none is known.
std::vector<double> usual_of(const OperatorNote& note, const std::vector<StepRecord>& steps, size_t part,
                             size_t number) {
  std::vector<double> usual(note.results.size(), 0);
  for (const auto& step : steps) {
    if (part >= step.parts.size() || number >= step.parts[part].operators.size()) continue;
    const auto& then = step.parts[part].operators[number];
    if (then.name != note.name || then.results.size() != usual.size()) continue;
    for (size_t i = 0; i < usual.size(); ++i) usual[i] = std::max(usual[i], then.results[i].largest);
  }
  return usual;
}

// Returns "numbers that are not finite" and the like; empty if there is nothing odd.
std::string oddness(const OperatorNote& note, const std::vector<double>& usual) {
  for (size_t i = 0; i < usual.size(); ++i) {
    const auto& result = note.results[i];
    if (!result.finite) return "numbers that are not finite";
    if (usual[i] > 0 && result.largest > kOdd * usual[i])
      return log::text("numbers up to ", result.largest, ", and in the steps before up to ", usual[i]);
  }
  return "";
}

}  // namespace

std::string part_text(const PartNote& part) {
  if (part.rank < 0) return log::text("shard ", part.number);
  return part.number == 0 ? log::text("the part of rank ", part.rank)
                          : log::text("micro-batch ", part.number, " of rank ", part.rank);
}

std::optional<RecordDifference> first_difference(const StepRecord& first, const StepRecord& second) {
  if (!first.begun.empty() && !second.begun.empty())
    if (const auto text = named_difference(first.begun, second.begun); !text.empty())
      return RecordDifference{.text = "what it begins with: " + text};
  if (auto text = samples_difference(first, second); !text.empty()) return RecordDifference{.text = std::move(text)};
  if (!std::ranges::equal(first.parts, second.parts, is_cut_alike))
    return RecordDifference{.text =
                                log::text("the batch is computed in ", first.parts.size(), " parts in the first and ",
                                          second.parts.size(), " in the second, or in another order")};
  for (size_t i = 0; i < first.parts.size(); ++i)
    if (auto found = difference_of(first.parts[i], second.parts[i])) return found;
  if (const auto text = named_difference(first.gradients, second.gradients); !text.empty())
    return RecordDifference{.text = "the exchanged gradients, though all operators give the same: " + text};
  if (const auto text = named_difference(first.left, second.left); !text.empty())
    return RecordDifference{.text = "what the step leaves, though the gradients are the same: " + text};
  return std::nullopt;
}

std::string first_odd_operator(const StepRecord& record, const std::vector<StepRecord>& before) {
  for (size_t i = 0; i < record.parts.size(); ++i) {
    const auto& part = record.parts[i];
    for (size_t j = 0; j < part.operators.size(); ++j) {
      const auto problem = oddness(part.operators[j], usual_of(part.operators[j], before, i, j));
      if (!problem.empty())
        return log::text(part_text(part), ", operator ", j + 1, " of ", part.operators.size(), ", ",
                         name_of(part.operators[j]), ", gives ", problem);
    }
  }
  return "";
}

}  // namespace ddprun
