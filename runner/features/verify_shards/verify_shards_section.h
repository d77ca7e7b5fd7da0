// SPDX-License-Identifier: MIT
#pragma once

namespace ddprun {

// trainer.verify_shards
struct VerifyShardsConfig {
  bool on = false;
};

}  // namespace ddprun
