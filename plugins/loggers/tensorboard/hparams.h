// SPDX-License-Identifier: MIT
// What TensorBoard's page of hyperparameters compares runs by (tensorboard/plugins/hparams/plugin_data.proto).
#pragma once

#include "message.h"

#include <ddprun/logger.h>

#include <string>

namespace ddprun::tensorboard {

inline constexpr auto kSessionStart = "_hparams_/session_start_info";
inline constexpr auto kSessionEnd = "_hparams_/session_end_info";

// Records world_size and every scalar value of the experiment (`optimizer.lr`), except those that say where and when it
// ran: `run`, `launch`, `resources`, `loggers`, `plugin_path`.
Message session_start(const RunStart& run, double time);

Message session_end(const RunEnd& end, double time);

}  // namespace ddprun::tensorboard
