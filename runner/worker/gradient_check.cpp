// SPDX-License-Identifier: MIT
#include "worker/gradient_check.h"

#include "metrics/objective.h"
#include "plugin_host/plugin_call.h"

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <utility>

namespace ddprun {
namespace {

constexpr auto kHint =
    ". This check computes in double precision, and what the model registers follows: is a layer or tensor of it not "
    "given to "
    "register_module(), register_parameter() or register_buffer()? It would be neither trained nor saved";

}  // namespace

std::vector<check::GradientFinding> check_gradients(Model& model, const Objective& objective, Batch batch,
                                                    int64_t numbers, uint64_t seed) {
  const auto loss_of = [&](const Batch& one) { return call_step(model, one, objective).loss; };
  try {
    return check::compare_gradients(model, loss_of, std::move(batch), numbers, seed);
  } catch (const PluginFailure& error) {
    const bool mixes_types =
        error.problem.find("Double") != std::string::npos || error.problem.find("double") != std::string::npos;
    if (!mixes_types) throw;
    throw PluginFailure({error.section, error.problem + kHint});
  }
}

std::string gradient_report(const std::vector<check::GradientFinding>& findings) {
  size_t width = 0;
  for (const auto& finding : findings) width = std::max(width, finding.parameter.size());
  std::ostringstream text;
  int64_t wrong = 0, unused = 0;
  for (const auto& finding : findings) {
    text << "  " << std::left << std::setw(static_cast<int>(width) + 2) << finding.parameter;
    if (!finding.has_gradient) {
      text << "no gradient: the loss does not depend on it\n";
      ++unused;
      continue;
    }
    text << finding.checked << " numbers, largest relative error " << std::scientific << std::setprecision(1)
         << finding.largest_error << (finding.wrong() ? "  WRONG" : "") << "\n";
    wrong += finding.wrong() ? 1 : 0;
  }
  text << (wrong == 0 ? "backward agrees with finite differences"
                      : "backward does not agree with finite differences in " + std::to_string(wrong) + " parameters");
  if (unused > 0) {
    text << "; " << unused << " unused: remove them, or set trainer.find_unused_parameters=true for several workers";
  }
  text << "\n";
  return text.str();
}

}  // namespace ddprun
