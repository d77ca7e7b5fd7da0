// SPDX-License-Identifier: MIT
#pragma once

namespace ddprun {

// Lets the kernel end the connection of this socket once its other side has been silent for so long, with ETIMEDOUT.
void keep_alive(int socket, double timeout_seconds);

}  // namespace ddprun
