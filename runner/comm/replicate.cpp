// SPDX-License-Identifier: MIT
#include "comm/replicate.h"

#include <ddprun/error.h>

#include <cstring>
#include <sstream>

namespace ddprun {
namespace {

// Describes each tensor in one line: "conv1.weight [32, 1, 3, 3] float".
std::string description(const std::vector<NamedParameter>& tensors) {
  std::ostringstream text;
  for (const auto& tensor : tensors) {
    text << tensor.name << " " << tensor.value.sizes() << " " << tensor.value.scalar_type() << "\n";
  }
  return text.str();
}

std::string first_difference(const std::string& mine, const std::string& theirs) {
  std::istringstream left(mine), right(theirs);
  std::string a, b;
  while (true) {
    const bool more_a = static_cast<bool>(std::getline(left, a));
    const bool more_b = static_cast<bool>(std::getline(right, b));
    if (!more_a) a = "nothing more";
    if (!more_b) b = "nothing more";
    if (a != b || (!more_a && !more_b)) return a + ", there " + b;
  }
}

constexpr auto kSameOnAll = ". A model must not depend on its rank, on the time or on unseeded random numbers.";

}  // namespace

std::vector<NamedParameter> state_tensors(const Model& model) {
  std::vector<NamedParameter> tensors;
  for (const auto& entry : model.named_parameters()) tensors.push_back({entry.key(), entry.value()});
  for (const auto& entry : model.named_buffers()) tensors.push_back({entry.key(), entry.value()});
  return tensors;
}

std::vector<at::Tensor> buffers(const Model& model) { return model.buffers(); }

void verify_same_model(const Model& model, Communicator& communicator) {
  const auto texts = communicator.gather_texts(description(state_tensors(model)));
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    throw UserError("model: rank " + std::to_string(rank) + " built a different network than rank 0: here " +
                    first_difference(texts[0], texts[rank]) + kSameOnAll);
  }
}

void verify_same_model(const Model& model, const Model& copy) {
  const auto first = description(state_tensors(model)), second = description(state_tensors(copy));
  if (first == second) return;
  throw UserError("model: rebuilt for another device, it is a different network: here " +
                  first_difference(first, second) + kSameOnAll);
}

namespace {

// Returns whether processes may share the memory of a parameter, until one of them writes to it.
bool may_lie_in_shared_memory(const at::Tensor& parameter) { return parameter.is_cpu() && !parameter.requires_grad(); }

// Writes to the parameter only if rank 0 has other bits.
void broadcast_without_writing(const at::Tensor& parameter, Communicator& communicator) {
  const auto own = parameter.detach().contiguous(), received = own.clone(at::MemoryFormat::Contiguous);
  communicator.broadcast({received});
  if (std::memcmp(own.const_data_ptr(), received.const_data_ptr(), own.nbytes()) == 0) return;
  parameter.detach().copy_(received);
}

}  // namespace

void broadcast_state(const Model& model, Communicator& communicator) {
  if (!communicator.is_distributed()) return;
  std::vector<at::Tensor> tensors, apart;
  for (const auto& parameter : model.named_parameters())
    (may_lie_in_shared_memory(parameter.value()) ? apart : tensors).push_back(parameter.value());
  for (const auto& buffer : model.named_buffers()) tensors.push_back(buffer.value());
  communicator.broadcast(std::move(tensors));
  for (const auto& parameter : apart) broadcast_without_writing(parameter, communicator);
}

}  // namespace ddprun
