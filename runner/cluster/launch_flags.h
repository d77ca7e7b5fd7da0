// SPDX-License-Identifier: MIT
// torchrun's options, from the command line or from the PET_* variables that torchrun would read.
#pragma once

#include "cluster/setting.h"

#include <optional>

namespace ddprun {

// Each has the name under which it was given, for error messages. Nothing is checked yet.
struct LaunchFlags {
  std::optional<Setting> nnodes;          // N or MIN:MAX
  std::optional<Setting> nproc_per_node;  // N, auto, gpu or cpu
  std::optional<Setting> node_rank;
  std::optional<Setting> rdzv_endpoint;  // host[:port]
  std::optional<Setting> master_addr;    // the same in two parts
  std::optional<Setting> master_port;
  std::optional<Setting> rdzv_id;
  std::optional<Setting> rdzv_backend;
  std::optional<Setting> max_restarts;
  std::optional<Setting> standalone;  // set by the flag alone, whatever its value

  // Returns any flag that was given, or nothing.
  std::optional<Setting> first() const;

  // Returns these flags, completed from `others`. The endpoint is taken as a whole, however many flags it comes in.
  LaunchFlags over(const LaunchFlags& others) const;
};

}  // namespace ddprun
