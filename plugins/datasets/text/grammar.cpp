// SPDX-License-Identifier: MIT
#include "grammar.h"

#include <array>
#include <cmath>
#include <numeric>
#include <string_view>

namespace ddprun::text {
namespace {

using Word = std::string_view;

// The ending "s" marks plural nouns and singular verbs; no word begins with a vowel, because "a" precedes them.
constexpr std::array<std::array<Word, 2>, 2> kDeterminers = {{{"the", "a"}, {"the", "some"}}};  // singular, plural
constexpr auto kAdjectives = std::to_array<Word>({"small", "big", "young", "quiet", "red", "wild"});
constexpr auto kNouns = std::to_array<Word>({"cat", "dog", "bird", "horse", "farmer", "sailor", "king", "rabbit"});
constexpr auto kVerbs = std::to_array<Word>({"see", "find", "like", "follow", "help", "hear", "want", "chase"});
constexpr auto kPrepositions = std::to_array<Word>({"near", "behind", "beside"});
constexpr Word kAnd = " and ", kEnd = ".\n";

constexpr double kPlural = 0.5, kHasAdjective = 0.5, kHasPreposition = 0.2, kHasAnd = 0.25;

class Writer {
 public:
  Writer(std::string& text, RandomStream& random) : text_(text), random_(random) {}

  double line() {
    const auto begin = text_.size();
    clause();
    while (happens(kHasAnd)) {
      text_ += kAnd;
      clause();
    }
    text_ += kEnd;
    text_[begin] = static_cast<char>(text_[begin] - 'a' + 'A');
    return nats_;
  }

 private:
  void clause() {
    const bool plural = phrase();
    text_ += " ";
    choose(kVerbs);
    text_ += plural ? " " : "s ";
    phrase();
  }

  // Returns whether it is plural.
  bool phrase() {
    const bool plural = happens(kPlural);
    choose(kDeterminers[plural ? 1 : 0]);
    text_ += " ";
    if (happens(kHasAdjective)) {
      choose(kAdjectives);
      text_ += " ";
    }
    choose(kNouns);
    text_ += plural ? "s" : "";
    if (happens(kHasPreposition)) {
      text_ += " ";
      choose(kPrepositions);
      text_ += " ";
      phrase();
    }
    return plural;
  }

  template <size_t N>
  void choose(const std::array<Word, N>& words) {
    nats_ += std::log(N);
    text_ += words[random_.below(N)];
  }

  bool happens(double chance) {
    const bool does = random_.uniform() < chance;
    nats_ -= std::log(does ? chance : 1 - chance);
    return does;
  }

  std::string& text_;
  RandomStream& random_;
  double nats_ = 0;
};

// Averages over one part of a line.
struct Mean {
  double nats = 0, characters = 0;
};

Mean operator+(const Mean& a, const Mean& b) { return {a.nats + b.nats, a.characters + b.characters}; }
Mean operator*(double factor, const Mean& mean) { return {factor * mean.nats, factor * mean.characters}; }

Mean characters(double count) { return {.characters = count}; }

template <size_t N>
Mean one_of(const std::array<Word, N>& words) {
  const auto add = [](double sum, Word word) { return sum + static_cast<double>(word.size()); };
  return {std::log(N), std::accumulate(words.begin(), words.end(), 0.0, add) / N};
}

Mean whether(double chance) { return {.nats = -chance * std::log(chance) - (1 - chance) * std::log(1 - chance)}; }
Mean perhaps(double chance, const Mean& part) { return whether(chance) + chance * part; }

// Returns the mean of `part` once and, each time with this chance, again after `link`.
Mean repeated(double chance, const Mean& part, const Mean& link) {
  return 1 / (1 - chance) * (part + perhaps(chance, link));
}

Mean mean_line() {
  const auto blank = characters(1), plural = characters(kPlural);
  const auto determiner = (1 - kPlural) * one_of(kDeterminers[0]) + kPlural * one_of(kDeterminers[1]);
  const auto noun = whether(kPlural) + determiner + blank + perhaps(kHasAdjective, one_of(kAdjectives) + blank) +
                    one_of(kNouns) + plural;
  const auto phrase = repeated(kHasPreposition, noun, blank + one_of(kPrepositions) + blank);
  const auto verb = blank + one_of(kVerbs) + characters(1 - kPlural) + blank;
  return repeated(kHasAnd, phrase + verb + phrase, characters(kAnd.size())) + characters(kEnd.size());
}

}  // namespace

double append_line(std::string& text, RandomStream& random) { return Writer(text, random).line(); }

double nats_per_character() {
  const auto line = mean_line();
  return line.nats / line.characters;
}

}  // namespace ddprun::text
