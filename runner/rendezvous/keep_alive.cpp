// SPDX-License-Identifier: MIT
#include "rendezvous/keep_alive.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>

namespace ddprun {

void keep_alive(int socket, double timeout_seconds) {
  constexpr int kProbes = 3;
  const int on = 1;
  const int between =
      std::max(1, static_cast<int>(timeout_seconds / (kProbes + 1)));    // seconds: idle once, then the probes
  const auto unsent_ms = static_cast<unsigned>(timeout_seconds * 1000);  // the same while data are under way
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &between, sizeof between);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &between, sizeof between);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof kProbes);
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &unsent_ms, sizeof unsent_ms);
}

}  // namespace ddprun
