// SPDX-License-Identifier: MIT
// Trains a network written in Python: the file that tools/export_model (torch.export) writes of it. Parameters and
// buffers are registered under their Python names, so that checkpoints fit module.load_state_dict().
#include "layers.h"
#include "program.h"
#include "program_file.h"
#include "results.h"

#include <ddprun/error.h>
#include <ddprun/model.h>

#include <torch/types.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace ddprun::exported {
namespace {

namespace fs = std::filesystem;

// The programs of a file, with its tensors unread.
struct Contents {
  explicit Contents(const fs::path& file) : archive(file), training(network_in(archive), results_of(archive)) {
    if (archive.evaluation().is_null())
      throw UserError("it has no program for evaluation: tools/export_model (ddprun-export-model) writes both");
    evaluation.emplace(archive.evaluation(), results_of(archive));
    if (training.inputs().size() != evaluation->inputs().size())
      throw UserError("its programs for training and for evaluation take different inputs");
    if (!archive.prediction().is_null()) prediction.emplace(archive.prediction());
  }

  static const nlohmann::json& network_in(const Archive& archive) {
    if (archive.is_network()) return archive.training();
    throw UserError("it is a loss (objective.name=exported): expected a network");
  }

  static size_t results_of(const Archive& archive) { return std::max<size_t>(archive.results().size(), 1); }

  Archive archive;
  Program training;
  std::optional<Program> evaluation, prediction;
};

Contents open(const fs::path& file) try { return Contents(file); } catch (const nlohmann::json::exception& error) {
  throw UserError(std::string("it is damaged: ") + error.what() + "; export it again");
} catch (const c10::Error& error) {
  throw UserError(std::string("it is damaged: ") + error.what_without_backtrace() + "; export it again");
}

// Registers modules and tensors as Python names them: a.b.weight is weight of the module b of the module a.
class Registry {
 public:
  // `classes` are those of the modules, by path: what a table of layers shows.
  Registry(torch::nn::Module& root, const std::map<std::string, std::string>& classes)
      : root_(root), classes_(classes) {}

  void add(const std::string& path, const Weight& weight) {
    const auto name = last_name(path);
    auto& module = owner(path);
    if (weight.is_parameter) {
      module.register_parameter(name, weight.tensor, weight.tensor.requires_grad());
    } else {
      module.register_buffer(name, weight.tensor);
    }
  }

  void add(const std::string& path, const std::shared_ptr<torch::nn::Module>& module) {
    owner(path).register_module(last_name(path), module);
  }

 private:
  static std::string last_name(const std::string& path) { return path.substr(path.rfind('.') + 1); }

  torch::nn::Module& owner(const std::string& path) {
    auto* module = &root_;
    size_t begin = 0;
    for (size_t dot = path.find('.'); dot != std::string::npos; begin = dot + 1, dot = path.find('.', begin)) {
      const auto name = path.substr(begin, dot - begin);
      if (name.empty()) throw UserError("it is damaged: a tensor is called " + path + "; export it again");
      const auto& children = module->named_children();
      const auto* child = children.find(name);
      module = child ? child->get() : module->register_module(name, plain_module(path.substr(0, dot))).get();
    }
    return *module;
  }

  std::shared_ptr<torch::nn::Module> plain_module(const std::string& path) const {
    const auto found = classes_.find(path);
    return std::make_shared<torch::nn::Module>(found == classes_.end() ? "Module" : found->second);
  }

  torch::nn::Module& root_;
  const std::map<std::string, std::string>& classes_;
};

class Exported final : public Model {
 public:
  explicit Exported(Options& options)
      : file_(options.require<fs::path>("file", "what tools/export_model (ddprun-export-model) wrote: net.pt2")),
        fused_(options.get<bool>("fused_layers", false,
                                 "BatchNorm with ReLU and 2 x 2 pooling, and dropout, in one pass on CPUs: faster, and "
                                 "equal to Python within rounding, no longer in every bit")),
        fixed_(options.get<bool>("mapped", false,
                                 "weights that do not train stay in the file, mapped into memory, which workers on one "
                                 "machine share; on CPUs")
                   ? Fixed::kMapped
                   : Fixed::kRead) {
    if (!options.has("file")) return;
    try {
      if (!fs::is_regular_file(file_)) throw UserError("no such file");
      contents_.emplace(open(file_));
      results_ = contents_->archive.results();
      target_ = contents_->archive.target();
    } catch (const UserError& error) {
      options.reject("file", file_.string() + ": " + error.what());
    }
  }

  bool has_default_step() const override { return results_.empty(); }

  bool waits_for_weights() const override { return true; }

  void prepare(const DataSpec& data) override try {
    require_mask(data);
    auto weights = contents_->archive.tensors(fixed_);
    training_.emplace(std::move(contents_->training));
    evaluation_.emplace(std::move(*contents_->evaluation));
    prediction_ = std::move(contents_->prediction);
    contents_.reset();
    Registry registry(*this, training_->modules());
    auto norms = make_norms(weights);
    for (const auto& name : training_->tensors()) add(name, registry, weights, norms);
    for (const auto& [name, weight] : weights) {
      add(name, registry, weights, norms);
      if (!weight.is_state) constants_.insert(name);
    }
    training_->bind(tensors_);
    evaluation_->bind(tensors_);
    if (prediction_) prediction_->bind(tensors_);
    find_blocks();
    require_trainable();
  } catch (const UserError& error) {
    throw UserError("exported: " + file_.string() + ": " + error.what());
  }

  at::Tensor predict(const Batch& batch) override {
    if (results_.empty()) return run(is_training() ? *training_ : *evaluation_, batch).front();
    if (prediction_) return run(*prediction_, batch).front();
    throw UserError("exported: " + file_.string() +
                    " gives its loss and no prediction: tools/export_model (ddprun-export-model) said why when it was "
                    "exported");
  }

  Step step(const Batch& batch, const Objective& objective) override {
    if (results_.empty()) return Model::step(batch, objective);
    const auto results = run(is_training() ? *training_ : *evaluation_, batch);
    const auto& loss = results.front();
    return {.loss = loss.scalar_type() == at::kDouble ? loss : loss.to(at::kFloat),
            .metrics = metric_sums(results_, results, batch.target, batch.input.size(0)),
            .counted = counted_by(results_.front(), batch.target)};
  }

 private:
  // Registers a tensor, or the layer in `norms` that it belongs to, unless that has been done.
  void add(const std::string& name, Registry& registry, const std::map<std::string, Weight>& weights,
           std::map<std::string, BatchNorm>& norms) {
    const auto weight = weights.find(name);
    if (weight == weights.end() || tensors_.contains(name)) return;
    const auto path = name.substr(0, name.rfind('.'));
    if (const auto norm = norms.find(path); norm != norms.end()) {
      registry.add(path, norm->second.ptr());
      return take(path, *norm->second, weights);
    }
    if (weight->second.is_state) registry.add(name, weight->second);
    tensors_.emplace(name, weight->second.tensor);
  }

  // A part that a network is cut into becomes a module without tensors: "part1". A layer of the SDK counts its batches,
  // too.
  void find_blocks() {
    const auto modules = named_modules();
    int64_t parts = 0;
    training_->find_blocks([&](Block& block, const std::vector<std::string>& changed) {
      const auto* module = modules.find(block.path);
      block.module = block.path.empty() ? add_part(++parts) : module ? *module : nullptr;
      for (const auto& name : changed) {
        block.buffers.push_back(tensors_.at(name));
        const auto counted = tensors_.find(name.substr(0, name.rfind('.') + 1) + "num_batches_tracked");
        if (counted != tensors_.end()) block.buffers.push_back(counted->second);
      }
    });
  }

  std::shared_ptr<torch::nn::Module> add_part(int64_t number) {
    auto name = "part" + std::to_string(number);
    const auto is_taken = [&] {
      return named_children().contains(name) || named_parameters(/*recurse=*/false).contains(name) ||
             named_buffers(/*recurse=*/false).contains(name);
    };
    while (is_taken()) name += "_";
    return register_module(name, std::make_shared<torch::nn::Module>("Part"));
  }

  // Puts layers of the SDK in the place of the program's BatchNorms. Returns them by path.
  std::map<std::string, BatchNorm> make_norms(const std::map<std::string, Weight>& weights) {
    const auto names = training_->names();
    std::map<std::string, BatchNorm> made;
    std::map<size_t, BatchNorm> by_node;
    for (auto& call : find_norms(training_->graph(), names)) {
      if (!weights.contains(call.path + ".num_batches_tracked"))
        continue;  // of another kind, or missing: bind() reports it
      call.options.channels = weights.at(call.path + ".running_mean").tensor.numel();
      const auto layer = made.try_emplace(call.path, call.options).first;
      call_layer(training_->graph(), call, layer->second, names);
      by_node.emplace(call.node, layer->second);
    }
    if (fused_) fuse(training_->graph(), by_node);
    return made;
  }

  void take(const std::string& path, torch::nn::Module& layer, const std::map<std::string, Weight>& weights) {
    const torch::NoGradGuard no_gradients;
    const auto take_one = [&](const std::string& name, at::Tensor& own) {
      const auto& given = weights.at(path + "." + name).tensor;
      own.set_data(given.detach());
      if (own.requires_grad() != given.requires_grad()) own.set_requires_grad(given.requires_grad());
      tensors_.emplace(path + "." + name, own);
    };
    for (auto& one : layer.named_parameters(/*recurse=*/false)) take_one(one.key(), one.value());
    for (auto& one : layer.named_buffers(/*recurse=*/false)) take_one(one.key(), one.value());
  }

  // Of input that needs a mask, one must be among the network's arguments.
  void require_mask(const DataSpec& data) const {
    const auto& inputs = contents_->training.inputs();
    const auto is_taken = [&](const auto& name) {
      return std::ranges::any_of(inputs, [&](const auto& form) { return form.name == name; });
    };
    if (data.masks.empty() || std::ranges::any_of(data.masks, is_taken)) return;
    std::string names;
    for (const auto& name : data.masks) names += (names.empty() ? "" : " or ") + name;
    throw UserError(
        "it takes no mask, and the data need one that does: export it with one of them as another --input: " + names +
        (data.masks.size() == 1 ? " (dataset.attention_mask=true gives one of context x context)" : ""));
  }

  void require_trainable() const {
    for (const auto& parameter : parameters())
      if (parameter.requires_grad()) return;
    throw UserError("it has no parameters to train: were they made with requires_grad=False?");
  }

  // The first input of forward() in Python is the batch's, the others are its extras of the same names, or its target.
  std::vector<at::Tensor> run(const Program& program, const Batch& batch) {
    std::vector<at::Tensor> given;
    for (const auto& form : program.inputs()) {
      const bool is_target = !target_.empty() && form.name == target_;
      const auto& tensor = is_target ? batch.target : given.empty() ? batch.input : batch.extra(form.name);
      if (!form.takes(tensor))
        throw UserError(c10::str("exported: ", file_.string(), " takes ", form.text(), " as ", form.name,
                                 "; the data give ", tensor.sizes(), " ", tensor.scalar_type(),
                                 is_target ? " as the target" : ""));
      given.push_back(tensor);
    }
    move_constants(batch.input.device());
    return program.run(given, batch.input.device());
  }

  // They are no part of a checkpoint, nor of the module, as in Python: what moves the model does not reach them.
  void move_constants(at::Device device) {
    if (device == constants_on_) return;
    const torch::NoGradGuard no_gradients;
    for (const auto& name : constants_) tensors_.at(name) = tensors_.at(name).to(device);
    constants_on_ = device;
  }

  const fs::path file_;
  const bool fused_;
  const Fixed fixed_;
  std::optional<Contents> contents_;  // until prepare()
  std::map<std::string, at::Tensor> tensors_;
  std::set<std::string> constants_;
  at::Device constants_on_ = at::kCPU;
  std::optional<Program> training_, evaluation_, prediction_;
  std::vector<ResultForm> results_;  // of a network that computes its loss
  std::string target_;               // which of its inputs is the target
};

}  // namespace
}  // namespace ddprun::exported

DDPRUN_MODEL(ddprun::exported::Exported, "exported", "a network written in Python, exported with torch.export")
