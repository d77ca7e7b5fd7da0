// SPDX-License-Identifier: MIT
#include "submit/submission.h"

#include <algorithm>

namespace ddprun {
namespace {

// Returns the workers per node, if known here.
int64_t workers_of(const Experiment& experiment) {
  if (experiment.trainer.strategy == Strategy::kDp) return 1;
  if (experiment.launch.workers > 0) return experiment.launch.workers;
  return experiment.resources.gpus > 0 ? experiment.resources.gpus : 1;
}

}  // namespace

int64_t nodes_of(const Experiment& experiment) {
  return experiment.resources.nodes > 0 ? experiment.resources.nodes : experiment.launch.max_nodes;
}

int64_t cpus_of_node(const Experiment& experiment) {
  const auto& resources = experiment.resources;
  return resources.cpus_per_node > 0 ? resources.cpus_per_node : resources.cpus_per_worker * workers_of(experiment);
}

namespace {

bool is_letter(char letter) { return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z'); }
bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }

// True for letters that need no quotes in any shell.
bool is_plain(char letter) {
  return is_letter(letter) || is_digit(letter) || std::string("_-./:=,@%+").find(letter) != std::string::npos;
}

}  // namespace

std::string shell_word(const std::string& text) {
  if (!text.empty() && std::ranges::all_of(text, is_plain)) return text;
  std::string word = "'";
  for (const char letter : text) {
    if (letter == '\'') {
      word += "'\\''";
    } else {
      word += letter;
    }
  }
  return word + "'";
}

std::string shell_words(const std::vector<std::string>& words) {
  std::string line;
  for (const auto& word : words) line += (line.empty() ? "" : " ") + shell_word(word);
  return line;
}

}  // namespace ddprun
