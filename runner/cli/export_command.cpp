// SPDX-License-Identifier: MIT
// `ddprun export RUN`: writes a checkpoint's weights, or the network with them, to one file for other programs.
#include "agent/checked_experiment.h"
#include "agent/chosen_checkpoint.h"
#include "base/log.h"
#include "base/private_folder.h"
#include "base/run_files.h"
#include "checkpoint/torch_file.h"
#include "cli/commands.h"
#include "cli/torch_python.h"
#include "cli/transformers_folder.h"
#include "config/config_files.h"
#include "config/key_path.h"
#include "data/data_form.h"
#include "launch/run_folder.h"
#include "launch/worker_process.h"
#include "plugin_host/carried_plugins.h"
#include "plugin_host/plugin_call.h"
#include "plugin_host/plugin_host.h"
#include "step/traced_model.h"
#include "weights/model_weights.h"
#include "weights/whole_weights.h"

#include <ddprun/error.h>
#include <ddprun/safetensors.h>

#include <caffe2/serialize/inline_container.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <fstream>
#include <iostream>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

enum class Format { kSafetensors, kTorch, kTorchScript, kPt2, kOnnx, kTransformers };

struct FormatName {
  Format format;
  std::string_view word, extension;
};

constexpr auto kFormats = std::to_array<FormatName>({{Format::kSafetensors, "safetensors", ".safetensors"},
                                                     {Format::kTorch, "torch", ".pt"},
                                                     {Format::kTorch, "torch", ".pth"},
                                                     {Format::kTorchScript, "torchscript", ".ts"},
                                                     {Format::kPt2, "pt2", ".pt2"},
                                                     {Format::kOnnx, "onnx", ".onnx"},
                                                     {Format::kTransformers, "transformers", "a folder"}});

Format format_of(const Arguments& arguments) {
  const auto by_word = std::ranges::find(kFormats, arguments.format, &FormatName::word);
  if (by_word != kFormats.end()) return by_word->format;
  const auto extension = fs::path(arguments.out).extension().string();
  const auto by_name = std::ranges::find(kFormats, extension, &FormatName::extension);
  if (by_name != kFormats.end()) return by_name->format;
  throw UserError(
      "--out " + arguments.out +
      ": cannot see the format in the name: expected .pt or .safetensors (weights), .ts, .pt2 or .onnx (the "
      "network); or add --format, for a folder --format transformers");
}

constexpr auto kKeepsSizes = "; --out with .pt2 or .onnx takes the file that the model came from, for any batch";

bool weights_alone(Format format) { return format == Format::kSafetensors || format == Format::kTorch; }

// What the run has noted of its data; where that is gone, the data are opened.
DataForm data_form(const fs::path& run) {
  if (const auto noted = read_data_form(run)) return *noted;
  const auto checked =
      check_experiment({.experiment = run / "config.yaml", .search_path = config_search_path(), .frozen = true});
  prepare_data(checked);
  in_plugin({"dataset", "start"}, [&] { checked.dataset->start(); });
  return form_of(*checked.dataset);
}

// A dataset that decodes its pictures knows from its options what they become: also runs from before this was noted.
std::optional<ByteRange> bytes_by_options(const Experiment& experiment) {
  const PluginHost host(plugin_search_path(experiment.plugin_path));
  const auto dataset = host.make_dataset(experiment.dataset);
  const auto* format = in_plugin({"dataset", "image_format"}, [&] { return dataset->image_format(); });
  return format ? byte_range_of(*dataset) : std::nullopt;
}

TraceForm trace_form(const fs::path& run, const Experiment& experiment, bool raw) {
  TraceForm form{.data = data_form(run), .raw = raw};
  if (!raw) return form;
  if (!form.data.bytes) form.data.bytes = bytes_by_options(experiment);
  if (!form.data.bytes)
    throw UserError(
        "--raw: the dataset " + experiment.dataset.plugin +
        " does not provide images as bytes, so how it makes inputs of them is not known; export without --raw");
  if (experiment.objective.plugin != "cross_entropy" || form.data.spec.classes < 1)
    throw UserError(
        "--raw gives the probabilities of classes, and this run was not trained with the objective "
        "cross_entropy; export without --raw");
  return form;
}

// What a file says of itself: ddprun.json among its extra files.
std::string about(const TraceForm& form, const CheckpointInfo& checkpoint) {
  auto json = nlohmann::ordered_json::parse(to_json(form.data));
  json["raw"] = form.raw;
  json["step"] = checkpoint.step;
  return json.dump(1) + "\n";
}

// The archive of torch.export, with a program for evaluation, that the model was made from; empty if it was made
// otherwise.
fs::path exported_program(const Experiment& experiment, const PluginHost::Names& paths) {
  const auto* section = find_at(experiment.config, *parse_key_path(experiment.model.path));
  for (const auto& name : paths) {
    const auto* value = section && section->is_map() ? section->find(name) : nullptr;
    if (!value || value->is_list()) continue;
    try {
      caffe2::serialize::PyTorchStreamReader reader(value->text());
      if (reader.hasRecord("extra/eval.json") || reader.hasRecord("extra/train.json")) return value->text();
    } catch (const c10::Error&) {
      continue;  // another kind of file
    }
  }
  return {};
}

// A model that is rebuilt from what its run has recorded.
class Network {
 public:
  Network(const fs::path& run, const CheckpointInfo& checkpoint, bool raw)
      : checkpoint_(checkpoint),
        experiment_(recorded_experiment(run)),
        host_(plugin_search_path(experiment_.plugin_path)),
        form_(trace_form(run, experiment_, raw)) {
    warn_of_other_files(run, experiment_.config);
  }

  void write(Format format, const fs::path& file, const TensorDict& weights) {
    PluginHost::Names paths;
    auto model = host_.make_model(experiment_.model, &paths);
    if (format == Format::kTorchScript)
      return write_script(*model, file, weights, exported_program(experiment_, paths).empty() ? "" : kKeepsSizes);
    const auto python = find_torch_python();
    const PrivateFolder folder;
    std::ofstream(folder.path() / "about.json") << about(form_, checkpoint_);
    auto program = exported_program(experiment_, paths);
    if (program.empty()) {
      program = folder.path() / "network.ts";
      write_script(*model, program, weights);
    }
    write_torch_file(folder.path() / "weights.pt", weights);
    run_tool(python, "lib/export_model/convert.py",
             {program.string(), (folder.path() / "weights.pt").string(), (folder.path() / "about.json").string(),
              file.string(), format == Format::kPt2 ? "pt2" : "onnx"});
  }

 private:
  void write_script(Model& model, const fs::path& file, const TensorDict& weights,
                    const std::string& advice = {}) const {
    in_plugin({"model", "prepare"}, [&] { model.prepare(form_.data.spec); });
    load_weights(model, weights, checkpoint_.path.string());
    std::ofstream stream(file, std::ios::binary);
    try {
      traced(model, form_).save(stream, {{"ddprun.json", about(form_, checkpoint_)}});
    } catch (const UserError& error) {
      throw UserError("model " + experiment_.model.plugin + ": " + error.what() + advice);
    }
    stream.close();
    if (!stream) throw UserError(file.string() + " cannot be written: is the disk full?");
  }

  const CheckpointInfo& checkpoint_;
  Experiment experiment_;
  PluginHost host_;
  TraceForm form_;
};

// Returns what a checkpoint holds that leaves the rest out.
TensorDict trained_weights(const CheckpointInfo& checkpoint) {
  if (checkpoint.left_out) return inference_weights(checkpoint);
  throw UserError("--only-trainable: " + checkpoint.path.string() +
                  " has all weights, and does not say which of them train: only those that were saved with "
                  "checkpoint.only_trainable=true do; `ddprun resume` with it saves such ones from here on");
}

TensorDict weights_of(const CheckpointInfo& checkpoint, const Arguments& arguments) {
  return arguments.only_trainable ? trained_weights(checkpoint) : whole_weights(checkpoint);
}

// These return how many tensors they have written.
size_t write_folder(const fs::path& run, const CheckpointInfo& checkpoint, const Arguments& arguments) {
  const auto experiment = recorded_experiment(run);
  PluginHost::Names paths;
  PluginHost(plugin_search_path(experiment.plugin_path)).make_model(experiment.model, &paths);
  return write_transformers_folder(
      exported_program(experiment, paths), [&] { return weights_of(checkpoint, arguments); }, arguments.out,
      arguments.force);
}

size_t write_file(Format format, const fs::path& run, const CheckpointInfo& checkpoint, const Arguments& arguments) {
  NewFile file(arguments.out, arguments.force, "choose another name, or --force replaces it");
  const auto weights = weights_of(checkpoint, arguments);
  if (format == Format::kTorch) {
    write_torch_file(file.temporary(), weights);
  } else if (format == Format::kSafetensors) {
    write_safetensors(file.temporary(), weights);
  } else {
    Network(run, checkpoint, arguments.raw).write(format, file.temporary(), weights);
  }
  file.keep();
  return weights.size();
}

}  // namespace

int export_run(const Arguments& arguments) {
  if (!arguments.overrides.empty())
    throw UserError(arguments.overrides.front() +
                    ": export takes no settings: the network is exported as the run has trained it");
  const auto format = format_of(arguments);
  if (arguments.raw && (weights_alone(format) || format == Format::kTransformers))
    throw UserError("--raw is for files that hold the network: --out with .ts, .pt2 or .onnx");
  if (arguments.only_trainable && !weights_alone(format))
    throw UserError("--only-trainable is for files of weights: --out with .safetensors or .pt");
  const auto run = existing_run(arguments.target);
  const auto checkpoint = choose_checkpoint(run, arguments.checkpoint);
  const auto tensors = format == Format::kTransformers ? write_folder(run, checkpoint, arguments)
                                                       : write_file(format, run, checkpoint, arguments);
  std::cout << arguments.out << ": " << (weights_alone(format) ? "" : "the network with ") << tensors << " tensors of "
            << checkpoint.path.filename().string() << ": " << text_of(standing_of(run, checkpoint)) << "\n";
  return kExitDone;
}

}  // namespace ddprun
