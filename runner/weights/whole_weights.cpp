// SPDX-License-Identifier: MIT
#include "weights/whole_weights.h"

#include "config/experiment.h"
#include "data/data_form.h"
#include "plugin_host/carried_plugins.h"
#include "plugin_host/plugin_call.h"
#include "plugin_host/plugin_host.h"
#include "weights/base_weights.h"
#include "weights/precision.h"
#include "weights/state_guard.h"

#include <ddprun/batch.h>
#include <ddprun/dataset.h>
#include <ddprun/error.h>
#include <ddprun/model.h>

#include <c10/core/Device.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

// A run whose model is made again, as it was before its first step.
class FirstModel {
 public:
  FirstModel(const fs::path& run, const CheckpointInfo& info)
      : info_(info),
        experiment_(recorded_experiment(run)),
        plugins_(plugin_search_path(experiment_.plugin_path)),
        noted_(read_data_form(run)) {
    const auto pretrained = fs::weakly_canonical(experiment_.pretrained.file) / "";
    if (pretrained.string().starts_with((run / "").string()))
      throw UserError(info.path.string() + " leaves out weights that come from its own run: pretrained.file is " +
                      experiment_.pretrained.file);
  }

  // Most models do not look at the data, which need not be there then.
  TensorDict complete(const TensorDict& held) const {
    std::string problem;
    try {
      if (noted_) return completed(held, noted_->spec, nullptr);
    } catch (const UserError& error) {
      problem = error.what();
    }
    std::shared_ptr<Dataset> data;
    try {
      data = plugins_.make_dataset(experiment_.dataset);
      in_plugin({"dataset", "start"}, [&] { data->start(); });
    } catch (const UserError& error) {
      throw UserError(problem.empty() ? std::string(error.what())
                                      : problem + ". The run's data cannot be opened: " + error.what());
    }
    return completed(held, in_plugin({"dataset", "spec"}, [&] { return data->spec(); }), data.get());
  }

 private:
  TensorDict completed(const TensorDict& held, const DataSpec& spec, const Dataset* data) const {
    const StateGuard generators({}, nullptr);
    seed_generators(experiment_.seed, 0, nullptr);
    const auto model = plugins_.make_model(experiment_.model);
    in_plugin({"model", "prepare"}, [&] { model->prepare(spec); });
    begin_weights(*model, data, experiment_.pretrained);
    const auto first = digests_of_weights(*model);
    Precision(experiment_.trainer, at::kCPU).convert(*model);
    return with_left_out(held, info_.left_out, *model, first, info_.path.string());
  }

  const CheckpointInfo& info_;
  Experiment experiment_;
  PluginHost plugins_;
  std::optional<DataForm> noted_;
};

}  // namespace

TensorDict whole_weights(const CheckpointInfo& info) {
  auto held = inference_weights(info);
  if (!info.left_out) return held;
  const auto run = info.path.parent_path().parent_path();
  std::error_code ignored;
  if (info.path.parent_path() != checkpoints_folder(run) || !fs::exists(run / "config.yaml", ignored))
    throw UserError(
        info.path.string() +
        " holds only what trains (checkpoint.only_trainable), and the experiment that makes the rest is in its "
        "run, which is not around it: put it back into RUN/checkpoints, or have `ddprun export` write all "
        "weights there");
  return FirstModel(run, info).complete(held);
}

}  // namespace ddprun
