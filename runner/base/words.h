// SPDX-License-Identifier: MIT
// Options that are one of a few words. Each is an enum; WordsOf<Enum>::kAll has its words in the order of its values.
// Those that several modules share are here, too.
#pragma once

#include <ddprun/options.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace ddprun {

template <class Enum>
struct WordsOf;  // static constexpr auto kAll = std::to_array<std::string_view>({"stop", "skip"});

template <class Enum>
constexpr std::string_view word_of(Enum value) {
  return WordsOf<Enum>::kAll[static_cast<size_t>(value)];
}

// Returns nothing where it is none of the words.
template <class Enum>
std::optional<Enum> enum_of(std::string_view word) {
  const auto& all = WordsOf<Enum>::kAll;
  const auto at = std::ranges::find(all, word);
  if (at == all.end()) return std::nullopt;
  return static_cast<Enum>(at - all.begin());
}

// Options::choose() for an enum.
template <class Enum>
Enum choose(Options& options, std::string_view name, Enum fallback, std::string_view help) {
  constexpr auto kCount = WordsOf<Enum>::kAll.size();
  const auto word = [&]<size_t... I>(std::index_sequence<I...>) {
    return options.choose(name, word_of(fallback), {WordsOf<Enum>::kAll[I]...}, help);
  }(std::make_index_sequence<kCount>());
  return enum_of<Enum>(word).value_or(fallback);
}

enum class Device { kAuto, kCpu, kGpu };
template <>
struct WordsOf<Device> {
  static constexpr auto kAll = std::to_array<std::string_view>({"auto", "cpu", "cuda"});
};

// How a run ended, as in summary.json; or that it did not: it runs, nobody runs it, or another node keeps it.
enum class RunStatus { kCompleted, kStoppedEarly, kPreempted, kFailed, kRunning, kInterrupted, kElsewhere };
template <>
struct WordsOf<RunStatus> {
  static constexpr auto kAll = std::to_array<std::string_view>(
      {"completed", "stopped_early", "preempted", "failed", "running", "interrupted", "elsewhere"});
};
constexpr bool has_trained_to_the_end(std::optional<RunStatus> status) {
  return status == RunStatus::kCompleted || status == RunStatus::kStoppedEarly;
}

}  // namespace ddprun
