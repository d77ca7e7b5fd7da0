// SPDX-License-Identifier: MIT
// What Slurm, torchrun and people write of nodes.
#include "cluster/endpoint.h"
#include "cluster/slurm.h"
#include "fuzz/fuzz_target.h"

namespace ddprun {

void feed_hosts(std::string_view bytes) {
  const Setting setting{"SETTING", std::string(bytes)};
  const auto each = {
      +[](const Setting& one) { expand_hosts(one); }, +[](const Setting& one) { expand_task_counts(one); },
      +[](const Setting& one) { parse_endpoint(one, kDefaultRdzvPort); }, +[](const Setting& one) { parse_host(one); }};
  for (const auto reader : each) {
    try {
      reader(setting);
    } catch (const UserError&) {  // each is to have its turn
    }
  }
}

}  // namespace ddprun

DDPRUN_FUZZ_TARGET(hosts, feed_hosts)
