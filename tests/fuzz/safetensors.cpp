// SPDX-License-Identifier: MIT
// Weights, as the runner reads them, and as the dataset of tensors does. The first two bytes are the header's length.
#include "fuzz/fuzz_target.h"
#include "safetensors_file.h"

#include <ddprun/files.h>
#include <ddprun/safetensors.h>

#include <stdexcept>

namespace ddprun {

void feed_safetensors(std::string_view bytes) {
  if (bytes.size() < 2) return;
  const auto file =
      fuzz::as_file(std::string(bytes.substr(0, 2)) + std::string(6, '\0') + std::string(bytes.substr(2)));
  const auto tensors = read_safetensors(file);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  const auto arrays = arrays::read_safetensors(map_file(file.string()), names);
  for (size_t i = 0; i < names.size(); ++i) {
    if (arrays[i].shape != tensors.at(names[i]).sizes()) throw std::logic_error("two shapes of " + names[i]);
  }
}

}  // namespace ddprun

DDPRUN_FUZZ_TARGET(safetensors, feed_safetensors)
