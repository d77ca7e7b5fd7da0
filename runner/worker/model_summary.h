// SPDX-License-Identifier: MIT
// Lists the layers of a model.
#pragma once

#include "device/device_backend.h"
#include "weights/precision.h"

#include <ddprun/dataset.h>
#include <ddprun/logger.h>
#include <ddprun/model.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace ddprun {

// Returns the modules with parameters of their own, each parameter counted once. If `output` is the model's output for
// `batch` samples, with gradients enabled, it adds the shapes of the layers' outputs without the samples: C++ modules
// have no hooks, but autograd's graph shows which operation used a layer's parameters. A layer whose operation is not
// found gets no shape.
std::vector<LayerSummary> layers_of(const Model& model, const at::Tensor& output = {}, int64_t batch = 0);

// What a forward pass needs.
struct SummaryParts {
  Model& model;  // on its device, in its precision
  const Dataset& dataset;
  const Precision& precision;
  c10::Device device;
  DeviceBackend* backend;  // null on the CPU
};

// Returns the same with the shapes from a forward pass of two samples of zeros, which changes nothing that training
// sees. A model that does not accept them is shown without shapes: its own errors come with its first step.
std::vector<LayerSummary> layers_of(const SummaryParts& parts);

}  // namespace ddprun
