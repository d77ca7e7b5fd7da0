// SPDX-License-Identifier: MIT
// The layers of a model, for people.
#pragma once

#include "comm/device_backend.h"
#include "train/precision.h"

#include <ddprun/dataset.h>
#include <ddprun/logger.h>
#include <ddprun/model.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace ddprun {

// The modules with parameters of their own, each parameter counted once. Where `output` is what the model made of
// `batch` samples with gradients enabled, with the shapes of the layers' outputs but for the samples: autograd's graph
// tells which operation took a layer's parameters, for C++ modules have no hooks. A layer whose operation is not found
// there has none.
std::vector<LayerSummary> layers_of(const Model& model, const at::Tensor& output = {}, int64_t batch = 0);

// What a forward takes.
struct SummaryParts {
  Model& model;  // on its device, in its precision
  const Dataset& dataset;
  const Precision& precision;
  c10::Device device;
  DeviceBackend* backend;  // null on the CPU
};

// The same with the shapes that a forward of two samples of zeros has, which changes nothing that training sees. A
// model that takes no such samples is shown without shapes: its own errors come with its first step.
std::vector<LayerSummary> layers_of(const SummaryParts& parts);

}  // namespace ddprun
