// SPDX-License-Identifier: MIT
#include "step/machine_text.h"

#include "base/log.h"
#include "launch/environment.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include <array>
#include <cstdlib>

namespace ddprun {
namespace {

// What may choose other kernels.
constexpr std::array kVariables{"ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "MKL_CBWR",
                                "MKL_ENABLE_INSTRUCTIONS"};

}  // namespace

std::string machine_text(const DeviceBackend* backend) {
  const auto threads = at::get_num_threads();
  auto text = log::text(processor_name(), ", ", at::get_cpu_capability(), ", ", threads,
                        threads == 1 ? " thread" : " threads", ", LibTorch ", TORCH_VERSION);
  if (backend) text = backend->description() + ", " + text;
  for (const char* name : kVariables)
    if (const char* value = std::getenv(name)) text += log::text(", ", name, "=", value);
  return text;
}

}  // namespace ddprun
