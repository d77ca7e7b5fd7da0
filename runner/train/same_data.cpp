// SPDX-License-Identifier: MIT
#include "train/same_data.h"

#include "base/log.h"
#include "base/program.h"
#include "data/sampling.h"

#include <ddprun/digest.h>
#include <ddprun/error.h>

#include <algorithm>
#include <vector>

namespace ddprun {
namespace {

std::string sizes_of(const Dataset& dataset) {
  std::string sizes;
  for (const auto& [split, name] : kSplitNames)
    sizes += log::text(sizes.empty() ? "" : ", ", dataset.size(split), " ", name, " samples");
  return sizes;
}

// Ranks with other labels, or another file of weights, would draw other samples of the same epoch.
std::string order_of(const Dataset& dataset, const Experiment& experiment) {
  const auto order = training_order(dataset, experiment.trainer, experiment.seed).of(0);
  Sha256 sum;
  sum.update(order.data(), order.size() * sizeof(int64_t));
  return "samples drawn with the SHA-256 " + sum.hex().substr(0, 16);
}

}  // namespace

void require_same_said(const std::string& said, Communicator& communicator, const DescribeData& described) {
  const auto all = communicator.gather_texts(said);
  const auto other = std::ranges::find_if(all, [&](const auto& text) { return text != all[0]; });
  if (other == all.end()) return;
  const auto hosts = communicator.gather_texts(host_name());
  const auto rank = static_cast<size_t>(other - all.begin());
  throw UserError(log::text("dataset: rank ", rank, " on ", hosts[rank], " has ",
                            described ? described(*other, all[0]) : *other, "; rank 0 on ", hosts[0], " has ",
                            described ? described(all[0], *other) : all[0],
                            ". Each node reads its own copy of the data: bring them to the same state"));
}

void require_same_data(const Dataset& dataset, const Experiment& experiment, Communicator& communicator) {
  require_same_said(sizes_of(dataset), communicator);
  if (experiment.trainer.sampling.is_on()) require_same_said(order_of(dataset, experiment), communicator);
}

}  // namespace ddprun
