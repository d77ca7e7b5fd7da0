// SPDX-License-Identifier: MIT
// The page of `ddprun replay`: the samples of a step, the worst first, and its gradients.
#pragma once

#include "features/record/step_view.h"

#include <filesystem>
#include <string>

namespace ddprun {

// Writes the page, with the samples as the run's experiment reads them now. `head` says how the step was made again.
// Throws UserError if the data cannot be read or the page cannot be written.
void write_step_page(const std::filesystem::path& run, const StepView& view, const std::string& head,
                     const std::filesystem::path& out);

}  // namespace ddprun
