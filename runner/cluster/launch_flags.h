// SPDX-License-Identifier: MIT
// torchrun's options, as given: on the command line, or by the PET_* variables that torchrun would read.
#pragma once

#include "cluster/setting.h"

#include <optional>

namespace ddprun {

// Each with the name under which it was given, for error texts. Nothing is checked yet.
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
  std::optional<Setting> standalone;  // whatever its value

  // Any of them; nothing where none was given.
  std::optional<Setting> first() const;

  // These, and what they leave open from `others`. The endpoint is one thing, in whatever parts it comes.
  LaunchFlags over(const LaunchFlags& others) const;
};

}  // namespace ddprun
