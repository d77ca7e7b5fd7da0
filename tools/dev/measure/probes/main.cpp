// SPDX-License-Identifier: MIT
// scaling_probe rendezvous NODES | gloo RANKS | world RANKS SAMPLES: prints its figures as one line of JSON.
#include "probes.h"

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

nlohmann::json probe(const std::vector<std::string>& words) {
  using namespace ddprun::scaling;
  const auto number = [&](size_t index) { return std::stoi(words.at(index)); };
  if (words.at(0) == "rendezvous") return probe_rendezvous(number(1));
  if (words.at(0) == "gloo") return probe_gloo(number(1));
  if (words.at(0) == "world") return probe_world(number(1), number(2));
  throw std::runtime_error("unknown probe " + words[0]);
}

}  // namespace

int main(int argc, char** argv) try {
  std::puts(probe({argv + 1, argv + argc}).dump().c_str());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "scaling_probe: %s\n", error.what());
  return 1;
}
