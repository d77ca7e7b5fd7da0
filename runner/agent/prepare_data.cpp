// SPDX-License-Identifier: MIT
#include "agent/prepare_data.h"

#include "agent/plugin_places.h"
#include "base/log.h"

#include <ddprun/dataset.h>

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

namespace ddprun {
namespace {

constexpr std::chrono::seconds kPause{5};

// A line that moves; in a file one every few seconds, so that what is quick leaves none.
Progress display() {
  return [live = isatty(STDERR_FILENO) == 1, told = std::chrono::steady_clock::now()](
             const std::string& text, int64_t done, int64_t total) mutable {
    if (!live && total > 0 && std::chrono::steady_clock::now() - told < kPause) return;
    told = std::chrono::steady_clock::now();
    const int64_t percent = total > 0 ? done * 100 / total : 0;
    const auto line = "ddprun: " + log::shown(text) + (total > 0 ? ": " + std::to_string(percent) + " %" : "");
    const bool finished = total > 0 && done >= total;
    std::fprintf(stderr, live ? "\r\033[2K%s%s" : "%s%s", line.c_str(), live && !finished ? "" : "\n");
    std::fflush(stderr);
  };
}

}  // namespace

void prepare_data(const CheckedExperiment& checked) try {
  in_plugin({"dataset", "prepare"}, [&] { checked.dataset->prepare(display()); });
} catch (const FromPlugin& error) {
  throw located(error, checked.experiment);
}

}  // namespace ddprun
