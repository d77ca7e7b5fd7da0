// SPDX-License-Identifier: MIT
#include "cluster/launch_flags.h"

namespace ddprun {
namespace {

constexpr std::optional<Setting> LaunchFlags::*kAll[] = {
    &LaunchFlags::nnodes,       &LaunchFlags::nproc_per_node, &LaunchFlags::node_rank, &LaunchFlags::rdzv_endpoint,
    &LaunchFlags::master_addr,  &LaunchFlags::master_port,    &LaunchFlags::rdzv_id,   &LaunchFlags::rdzv_backend,
    &LaunchFlags::max_restarts, &LaunchFlags::standalone,
};

}  // namespace

std::optional<Setting> LaunchFlags::first() const {
  for (const auto flag : kAll) {
    if (this->*flag) return this->*flag;
  }
  return std::nullopt;
}

LaunchFlags LaunchFlags::over(const LaunchFlags& others) const {
  LaunchFlags both = *this;
  for (const auto flag : kAll) {
    if (!(both.*flag)) both.*flag = others.*flag;
  }
  if (rdzv_endpoint || master_addr) {
    both.rdzv_endpoint = rdzv_endpoint;
    both.master_addr = master_addr;
    both.master_port = master_port;
  }
  return both;
}

}  // namespace ddprun
