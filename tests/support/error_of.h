// SPDX-License-Identifier: MIT
#pragma once

#include <ddprun/error.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun {

// What the Error says that a call throws; empty where it throws none.
template <class Error = UserError, class Call>
std::string error_of(Call call) try {
  call();
  return "";
} catch (const Error& error) {
  return error.what();
}

// Whether a text has these words in their order: "a ... b" asks for "a", and for "b" somewhere behind it. No words ask
// for an empty text.
inline ::testing::AssertionResult says(std::string_view text, std::string_view words) {
  constexpr std::string_view kGap = " ... ";
  if (words.empty() && !text.empty()) return ::testing::AssertionFailure() << "unexpected: " << text;
  for (auto rest = text; !words.empty();) {
    const auto piece = words.substr(0, words.find(kGap));
    const auto at = rest.find(piece);
    if (at == rest.npos) return ::testing::AssertionFailure() << "\"" << text << "\" does not say \"" << piece << "\"";
    rest.remove_prefix(at + piece.size());
    words.remove_prefix(std::min(words.size(), piece.size() + kGap.size()));
  }
  return ::testing::AssertionSuccess();
}

// Rows of what is refused, each with words of its error.
template <class Input>
using Refusals = std::vector<std::pair<Input, std::string>>;

// Expects that `problem_of` an input says the words of its row.
template <class Input = std::string, class Problem>
void expect_refused(const Problem& problem_of, const Refusals<Input>& rows) {
  for (size_t row = 0; row < rows.size(); ++row)
    EXPECT_TRUE(says(problem_of(rows[row].first), rows[row].second)) << "row " << row;
}

}  // namespace ddprun
