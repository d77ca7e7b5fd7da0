// SPDX-License-Identifier: MIT
#include "train/checkpointer.h"

#include "base/log.h"
#include "comm/replicate.h"
#include "plugin_host/plugin_call.h"
#include "train/model_weights.h"
#include "train/state_guard.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

// Gives tied weights their average under each of their names, as a checkpoint's weights have them: whoever loads one
// after the other ends with the average, whatever their order.
TensorDict under_each_name(TensorDict averages, const Model& model) {
  std::map<const c10::TensorImpl*, at::Tensor> averaged;
  for (const auto& weight : state_tensors(model)) {
    const auto found = averages.find(weight.name);
    if (found != averages.end()) averaged.emplace(weight.value.unsafeGetTensorImpl(), found->second);
  }
  for (const auto& weight : state_tensors(model)) {
    const auto found = averaged.find(weight.value.unsafeGetTensorImpl());
    if (found != averaged.end()) averages.emplace(weight.name, found->second);
  }
  return averages;
}

}  // namespace

void Checkpointer::save(const TrainState& state, bool best) {
  const auto rows_written = context_.loggers.start_flush();
  finish();  // the previous save: there is one copy in memory
  const auto now = live(state);
  context_.saver.start(context_.experiment.checkpoint.async ? snapshot_.take(now) : now, best, rows_written);
  if (!context_.experiment.checkpoint.async) finish();
  saved_step_ = state.step;
  saved_path_ = (checkpoints_folder(context_.run_dir) / checkpoint_name(state.step)).string();
  since_save_.restart();
}

void Checkpointer::finish() {
  context_.saver.wait(alive_);
  for (const auto& warning : context_.saver.take_warnings()) log::warn(warning);
}

void Checkpointer::rescue() noexcept try { context_.saver.wait(alive_); } catch (const std::exception& error) {
  log::warn(error.what());
}

// Returns the live state on rank 0, with what the others sent; on those little more than its step.
Checkpoint Checkpointer::live(const TrainState& state) const {
  const auto own = rng_state(context_.backend.get());
  Checkpoint checkpoint{
      .step = state.step, .ranks = gather_tensors(own, context_.communicator), .replaces = callbacks_.have_finished()};
  if (!context_.is_rank_zero()) return checkpoint;
  checkpoint.ranks.front().merge(callbacks_.state());
  for (const auto& tensor : state_tensors(*context_.model)) checkpoint.model[tensor.name] = tensor.value.detach();
  checkpoint.average = under_each_name(step_.ema().state(), *context_.model);
  checkpoint.optimizer = in_plugin({"optimizer", "state"}, [&] { return context_.optimizer->state(); });
  checkpoint.progress = state.to_json();
  return checkpoint;
}

void Checkpointer::restore(const Checkpoint& checkpoint, const TrainState& state, const std::string& path) {
  const auto rank = static_cast<size_t>(context_.communicator.world().rank);
  const auto own = rank < checkpoint.ranks.size() ? checkpoint.ranks[rank] : TensorDict();
  step_.ema().load_state(checkpoint.average);
  if (rank == 0) load_weights(*context_.model, checkpoint.model, path);
  broadcast_state(*context_.model, context_.communicator);
  in_plugin({"optimizer", "load_state"}, [&] { context_.optimizer->load_state(checkpoint.optimizer); });
  callbacks_.load_state(checkpoint.ranks.empty() ? TensorDict() : checkpoint.ranks.front());
  set_rng_state(own, context_.backend.get());
  saved_step_ = state.step;
  saved_path_ = path;
}

// Only rank 0 reads: the others learn whether it could, and get its weights.
void Checkpointer::with_weights_of(const std::string& name, const std::function<void()>& use) {
  const auto path = checkpoints_folder(context_.run_dir) / name;
  const KeptWeights kept(*context_.model);
  std::string problem;
  try {
    if (context_.is_rank_zero())
      load_weights(*context_.model, inference_weights(verify_checkpoint(path)), path.string());
  } catch (const std::exception& error) {
    problem = error.what();
    log::warn("the best checkpoint is not tested: " + problem);
  }
  if (!context_.communicator.broadcast_text(problem).empty()) return;
  broadcast_state(*context_.model, context_.communicator);
  use();
}

bool Checkpointer::is_own() const {
  return std::filesystem::path(saved_path_).parent_path() == checkpoints_folder(context_.run_dir);
}

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
    if (!dtype) throw std::runtime_error("rank 0 sends a tensor of unknown type");
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

Checkpoint read_on_all(const std::string& path, Communicator& communicator) {
  const bool is_rank_zero = communicator.world().rank == 0;
  Checkpoint checkpoint;
  if (is_rank_zero) checkpoint = read_checkpoint(read_checkpoint_info(path));
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
