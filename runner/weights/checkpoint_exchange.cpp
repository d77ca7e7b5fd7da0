// SPDX-License-Identifier: MIT
#include "weights/checkpoint_exchange.h"

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace ddprun {
namespace {

constexpr int64_t kPieceBytes = 64 << 20;  // a broadcast copies a few of them at once

TensorDict dense(TensorDict tensors) {
  for (auto& [name, tensor] : tensors) tensor = to_dense_host(tensor);
  return tensors;
}

// Returns names, types and places of the elements, from which empty_like_those() makes tensors to receive into.
nlohmann::json description(const TensorDict& tensors) {
  auto all = nlohmann::json::array();
  for (const auto& [name, tensor] : tensors) {
    require_storable(name, tensor);
    all.push_back({name, *dtype_name(tensor.scalar_type()), tensor.sizes().vec(), tensor.strides().vec()});
  }
  return all;
}

TensorDict empty_like_those(const nlohmann::json& described) {
  TensorDict tensors;
  for (const auto& one : described) {
    const auto dtype = dtype_from_name(one.at(1).get<std::string>());
    if (!dtype) throw std::runtime_error("another rank sends a tensor of unknown type");
    const auto sizes = one.at(2).get<std::vector<int64_t>>(), strides = one.at(3).get<std::vector<int64_t>>();
    tensors[one.at(0)] = at::empty_strided(sizes, strides, at::dtype(*dtype));
  }
  return tensors;
}

// Returns the elements of a dense tensor as they lie in memory.
at::Tensor bytes_of(const at::Tensor& tensor) { return tensor.as_strided({tensor.numel()}, {1}).view(at::kByte); }

// Returns "<bytes of the description> <description><all elements>".
std::string packed(const TensorDict& tensors) {
  const auto header = description(tensors).dump();
  auto text = std::to_string(header.size()) + " " + header;
  for (const auto& [name, tensor] : tensors)
    text.append(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
  return text;
}

TensorDict unpacked(const std::string& text) {
  const auto begin = text.find(' ') + 1, size = std::stoul(text);
  auto tensors = empty_like_those(nlohmann::json::parse(text.substr(begin, size)));
  auto at = begin + size;
  for (auto& [name, tensor] : tensors) {
    if (text.size() - at < tensor.nbytes()) throw std::runtime_error("another rank's state is cut off");
    if (tensor.nbytes() > 0) std::memcpy(tensor.data_ptr(), text.data() + at, tensor.nbytes());
    at += tensor.nbytes();
  }
  return tensors;
}

void add_pieces(const TensorDict& tensors, std::vector<at::Tensor>& pieces) {
  for (const auto& [name, tensor] : tensors) {
    const auto bytes = bytes_of(tensor);
    for (int64_t begin = 0; begin < bytes.numel(); begin += kPieceBytes)
      pieces.push_back(bytes.narrow(0, begin, std::min(kPieceBytes, bytes.numel() - begin)));
  }
}

// Returns everything but the tensors' elements.
nlohmann::json outline(const Checkpoint& checkpoint) {
  auto ranks = nlohmann::json::array();
  for (const auto& rank : checkpoint.ranks) ranks.push_back(description(rank));
  return {{"step", checkpoint.step},
          {"progress", checkpoint.progress},
          {"average", description(checkpoint.average)},
          {"optimizer", description(checkpoint.optimizer)},
          {"ranks", std::move(ranks)}};
}

Checkpoint empty_like_that(const nlohmann::json& outline) {
  Checkpoint checkpoint{.step = outline.at("step"),
                        .average = empty_like_those(outline.at("average")),
                        .optimizer = empty_like_those(outline.at("optimizer")),
                        .progress = outline.at("progress")};
  for (const auto& rank : outline.at("ranks")) checkpoint.ranks.push_back(empty_like_those(rank));
  return checkpoint;
}

}  // namespace

std::vector<TensorDict> gather_tensors(const TensorDict& mine, Communicator& communicator) {
  const auto texts = communicator.gather_texts(packed(dense(mine)));
  std::vector<TensorDict> all;
  if (communicator.world().rank != 0) return all;
  for (const auto& text : texts) all.push_back(unpacked(text));
  return all;
}

TensorsElsewhere forms_elsewhere(const TensorDict& mine, Communicator& communicator) {
  const auto texts = communicator.gather_texts(description(mine).dump());
  TensorsElsewhere elsewhere;
  for (int64_t rank = 0; rank < std::ssize(texts); ++rank) {
    if (rank == communicator.world().rank) continue;
    for (const auto& form : nlohmann::json::parse(texts[static_cast<size_t>(rank)])) {
      const auto dtype = form.at(1).get<std::string>();
      elsewhere.push_back(
          {{.name = form.at(0), .dtype = dtype, .type = dtype_from_name(dtype), .shape = form.at(2)}, rank});
    }
  }
  return elsewhere;
}

TensorDict gather_apart(TensorDict mine, Communicator& communicator) {
  for (auto& [name, tensor] : mine) {
    tensor = tensor.detach().resolve_conj().resolve_neg();
    if (!tensor.is_non_overlapping_and_dense()) tensor = tensor.contiguous();
  }
  const auto described = communicator.gather_texts(description(mine).dump());
  TensorDict all;
  std::vector<at::Tensor> pieces;
  if (communicator.world().rank != 0) {
    add_pieces(mine, pieces);
    for (const auto& piece : pieces) communicator.send({piece.cpu()}, 0);
    return all;
  }
  for (int64_t rank = 1; rank < communicator.world().size; ++rank) {
    auto theirs = empty_like_those(nlohmann::json::parse(described[static_cast<size_t>(rank)]));
    add_pieces(theirs, pieces);
    communicator.receive(std::exchange(pieces, {}), rank);
    all.merge(theirs);
  }
  return all;
}

Checkpoint read_on_all(const std::string& path, Communicator& communicator,
                       const std::function<void(Checkpoint&)>& fit) {
  const bool is_rank_zero = communicator.world().rank == 0;
  Checkpoint checkpoint;
  if (is_rank_zero) checkpoint = read_checkpoint(read_checkpoint_info(path));
  if (is_rank_zero && fit) fit(checkpoint);
  if (!communicator.is_distributed()) return checkpoint;
  for (auto* tensors : {&checkpoint.average, &checkpoint.optimizer}) *tensors = dense(std::move(*tensors));
  for (auto& rank : checkpoint.ranks) rank = dense(std::move(rank));
  const auto text = communicator.broadcast_text(is_rank_zero ? outline(checkpoint).dump() : "");
  if (!is_rank_zero) checkpoint = empty_like_that(nlohmann::json::parse(text));
  std::vector<at::Tensor> pieces;
  for (const auto* tensors : {&checkpoint.average, &checkpoint.optimizer}) add_pieces(*tensors, pieces);
  for (const auto& rank : checkpoint.ranks) add_pieces(rank, pieces);
  communicator.broadcast(std::move(pieces));
  return checkpoint;
}

}  // namespace ddprun
