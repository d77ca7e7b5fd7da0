// SPDX-License-Identifier: MIT
// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC 2011) in plain C++ that
// includes nothing, because it is compiled for GPUs too. On the CPU, draw from random.h.
#pragma once

namespace ddprun {

struct PhiloxBlock {
  unsigned int words[4];
};

// Returns four random 32-bit words for this counter under this key.
constexpr PhiloxBlock philox_block(PhiloxBlock counter, unsigned int key0, unsigned int key1) {
  constexpr unsigned long long kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr unsigned int kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const unsigned long long product0 = kMultiplier0 * counter.words[0], product1 = kMultiplier1 * counter.words[2];
    counter = {
        {static_cast<unsigned int>(product1 >> 32) ^ counter.words[1] ^ key0, static_cast<unsigned int>(product1),
         static_cast<unsigned int>(product0 >> 32) ^ counter.words[3] ^ key1, static_cast<unsigned int>(product0)}};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return counter;
}

// Converts a word to a number in [0, 1) of 24 bits.
constexpr float philox_unit(unsigned int word) { return static_cast<float>(word >> 8) * (1.0F / 16777216.0F); }

}  // namespace ddprun
