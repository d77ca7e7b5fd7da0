// SPDX-License-Identifier: MIT
#include "base/cores.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <sstream>

namespace ddprun {
namespace {

constexpr int kMostCores = 16384;
constexpr size_t kMaskSets = kMostCores / CPU_SETSIZE;

}  // namespace

std::vector<int> cores_of_process(pid_t pid) {
  std::array<cpu_set_t, kMaskSets> mask{};
  std::vector<int> cores;
  if (::sched_getaffinity(pid, sizeof mask, mask.data()) != 0) return cores;
  for (int core = 0; core < kMostCores; ++core) {
    if (CPU_ISSET_S(core, sizeof mask, mask.data())) cores.push_back(core);
  }
  return cores;
}

std::vector<cpu_set_t> mask_of_cores(const std::vector<int>& cores) {
  std::vector<cpu_set_t> mask(cores.empty() ? 0 : kMaskSets);
  for (const int core : cores) CPU_SET_S(core, mask.size() * sizeof(cpu_set_t), mask.data());
  return mask;
}

std::vector<int> read_cores(const std::string& list) {
  std::istringstream parts(list);
  std::vector<int> cores;
  for (std::string part; std::getline(parts, part, ',');) {
    int first = 0, last = 0;
    const auto read = std::sscanf(part.c_str(), "%d-%d", &first, &last);
    if (read < 1 || first < 0) break;
    last = std::min(read == 1 ? first : last, kMostCores - 1);
    for (int core = first; core <= last; ++core) cores.push_back(core);
  }
  return cores;
}

}  // namespace ddprun
