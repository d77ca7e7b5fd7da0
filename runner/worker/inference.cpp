// SPDX-License-Identifier: MIT
#include "base/log.h"
#include "base/run_files.h"
#include "checkpoint/checkpoint.h"
#include "data/data_form.h"
#include "data/loader.h"
#include "metrics/predictions.h"
#include "metrics/worst_predictions.h"
#include "plugin_host/plugin_call.h"
#include "sharing/out_of_memory.h"
#include "train/evaluator.h"
#include "train/train_state.h"
#include "weights/base_weights.h"
#include "weights/model_weights.h"
#include "weights/state_guard.h"
#include "worker/runtime.h"
#include "worker/worker.h"

#include <ddprun/error.h>
#include <ddprun/files.h>

#include <nlohmann/json.hpp>
#include <torch/types.h>

#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

using Json = nlohmann::ordered_json;

class Inference : public WorkerTask {
 public:
  explicit Inference(const WorkerPlace& place) : runtime_(place) {}

  int run() final {
    const auto& checkpoint = runtime_.place.attempt.checkpoint;
    runtime_.build([&](Model& model) { load_weights(model, weights(model), checkpoint); });
    runtime_.set_memory_format(memory_format(checkpoint));
    choose_samples();
    objective_ = runtime_.objective();
    images_ = runtime_.images();
    phase_ = "evaluating";
    const auto result = infer();
    if (runtime_.place.rank != 0) return kExitDone;
    const auto text = result.dump(2, ' ', false, Json::error_handler_t::replace);
    replace_file(runtime_.place.attempt.run_dir / kInferenceResult, text + "\n");
    return kExitDone;
  }

  const char* phase() const final { return phase_; }

 protected:
  virtual void choose_samples() {}
  virtual Json infer() = 0;

  Runtime runtime_;
  std::shared_ptr<Objective> objective_;
  SplitImages images_ = {};

 private:
  // Returns the checkpoint's weights. What it leaves out is made again as the training did, from data only if they are
  // the run's.
  TensorDict weights(Model& model) const {
    const auto info = read_checkpoint_info(runtime_.place.attempt.checkpoint);
    auto held = inference_weights(info);
    if (!info.left_out) return held;
    const auto* data = runtime_.place.noted.empty() ? runtime_.dataset.get() : nullptr;
    begin_weights(model, data, runtime_.experiment.pretrained);
    return with_left_out(std::move(held), info.left_out, model, digests_of_weights(model), info.path.string());
  }

  // Returns the memory format of the training, so that the numbers are the same.
  MemoryFormat memory_format(const std::string& checkpoint) const {
    const auto& config = runtime_.experiment.trainer;
    if (config.memory_format != MemoryFormat::kAuto) return config.memory_format;
    const auto info = read_checkpoint_info(checkpoint);
    return TrainState::from_json(read_checkpoint(info).progress, checkpoint).memory_format;
  }

  const char* phase_ = "starting";
};

class EvaluationTask final : public Inference {
 public:
  using Inference::Inference;

 private:
  Json infer() override {
    const auto& trainer = runtime_.experiment.trainer;
    Json result{{"metrics", Json::object()}};
    add(result, Split::kVal, trainer.val_batches);
    add(result, Split::kTest, trainer.test_batches);
    if (result["metrics"].empty())
      throw UserError("dataset: it has neither a validation nor a test split, so there is nothing to evaluate on");
    return result;
  }

  void add(Json& result, Split split, const Limit& limit) {
    if (runtime_.dataset->size(split) == 0) return;
    Evaluator evaluator({runtime_.model, runtime_.dataset, *objective_, runtime_.communicator, runtime_.precision,
                         runtime_.device, images_},
                        runtime_.experiment.trainer);
    const auto evaluation = *evaluator.run(split, limit);
    const std::string name = split_name(split);
    if (runtime_.communicator.world().rank == 0) warn_of_nothing(evaluation, name);
    for (const auto& [metric, value] : evaluation.values(name))
      result["metrics"][metric] = std::isfinite(value) ? Json(value) : Json(nullptr);
    for (const auto& total : evaluation.totals) {
      if (total.name != "accuracy") continue;
      result[name + "_correct"] = std::llround(total.sum);
      result[name + "_total"] = total.count;
    }
    if (evaluation.confusion.defined()) add_confusion(result, name, evaluation.confusion);
  }

  void add_confusion(Json& result, const std::string& split, const at::Tensor& counts) const {
    const auto table = confusion_table(counts, runtime_.dataset->spec(), split, 0, 0);
    const auto classes = static_cast<std::ptrdiff_t>(table.class_names.size());
    auto rows = Json::array();
    for (auto row = table.counts.begin(); row != table.counts.end(); row += classes) {
      rows.push_back(std::vector<int64_t>(row, row + classes));
    }
    result["confusion"][split] = {{"classes", table.class_names}, {"counts", std::move(rows)}};
  }
};

class PredictionTask final : public Inference {
 public:
  using Inference::Inference;

 private:
  void choose_samples() override {
    if (runtime_.place.inputs.empty()) return;
    inputs_ = read_inputs(runtime_.place.inputs);
    files_ = in_plugin({"dataset", "use_inputs"}, [&] { return runtime_.dataset->use_inputs(inputs_); });
    const auto size = runtime_.dataset->size(Split::kTest);
    if (size > 0 && size == static_cast<int64_t>(files_.size())) return;
    throw UserError(log::text("dataset: use_inputs() names the files of ", files_.size(),
                              " samples, but the split test then has ", size, "; expected as many, and at least one"));
  }

  Json infer() override {
    const auto split = chosen_split();
    const EvalMode mode(*runtime_.model);
    const torch::NoGradGuard no_gradients;
    const auto& trainer = runtime_.experiment.trainer;
    EvalLoader source(runtime_.dataset, split, eval_batch(trainer), {}, trainer, runtime_.communicator.world(),
                      runtime_.device, images_[static_cast<size_t>(split)]);
    const auto autocast = runtime_.precision.autocast();
    if (runtime_.place.rank == 0) file_.emplace(runtime_.place.out);
    if (const auto most = runtime_.place.worst; most > 0)
      worst_.emplace(static_cast<size_t>(most), runtime_.dataset->spec());
    names_ = file_names(split);
    try {
      for (int64_t round = 0; round < source.rounds(); ++round) write(source.has_next() ? lines(source.next()) : "");
    } catch (const std::exception& error) {
      rethrow_with_advice(error, log::text("predicting the split ", split_name(split)),
                          advice_for_evaluations(eval_batch(trainer)));
    }
    if (file_) file_->finish();
    auto counts = at::tensor({correct_, classified_, dark_, light_}, at::kLong);
    runtime_.communicator.sum(counts);
    Json result{{"samples", runtime_.dataset->size(split)}};
    if (const auto classified = counts[1].item<int64_t>(); classified > 0)
      result["correct"] = counts[0].item<int64_t>();
    if (!inputs_.empty()) {
      result["left_out"] = left_out();
      result["dark"] = counts[2].item<int64_t>();
      result["light"] = counts[3].item<int64_t>();
    }
    if (worst_) result["worst"] = worst_of_all();
    return result;
  }

  Json worst_of_all() {
    WorstPredictions all(static_cast<size_t>(runtime_.place.worst), runtime_.dataset->spec());
    for (const auto& text : runtime_.communicator.gather_texts(worst_->text())) all.merge(text);
    return all.table();
  }

  // Whether the samples have names is for the first one to say.
  bool file_names(Split split) const { return !files_.empty() || !name_of(split, 0).empty(); }

  std::string name_of(Split split, int64_t index) const {
    if (!files_.empty()) return files_[static_cast<size_t>(index)];
    return in_plugin({"dataset", "sample_name"}, [&] { return runtime_.dataset->sample_name(split, index); });
  }

  Json left_out() const {
    const std::set<std::string> used(files_.begin(), files_.end());
    auto names = Json::array();
    for (const auto& file : inputs_) {
      if (!used.contains(file.string())) names.push_back(file.string());
    }
    return names;
  }

  Split chosen_split() const {
    const auto& word = runtime_.place.split;
    for (const auto split : {Split::kTrain, Split::kVal, Split::kTest}) {
      if (word == split_name(split) && runtime_.dataset->size(split) > 0) return split;
    }
    throw UserError("--split " + word + ": the dataset has no such split, or no samples in it");
  }

  std::string lines(const Batch& batch) {
    auto predicted = predict(*runtime_.model, runtime_.precision.converted(batch), *objective_);
    predicted.has_truth = inputs_.empty();
    if (names_) {
      const auto numbers = predicted.index.to(at::kCPU).contiguous();
      for (const int64_t index : std::span(numbers.const_data_ptr<int64_t>(), static_cast<size_t>(batch.size())))
        predicted.files.push_back(name_of(chosen_split(), index));
    }
    if (predicted.has_truth && predicted.guess.defined()) {
      correct_ += predicted.guess.eq(predicted.truth).sum().item<int64_t>();
      classified_ += batch.size();
    }
    if (!inputs_.empty()) count_brightness(batch.input);
    if (worst_) worst_->add(predicted);
    const auto spec = runtime_.dataset->spec();
    const bool first = file_ && !std::exchange(begun_, true);
    return (first ? prediction_head(predicted, spec) : "") + prediction_lines(predicted, spec);
  }

  void count_brightness(const at::Tensor& input) {
    const auto means = brightness_of(*runtime_.dataset, input);
    if (!means.defined()) return;
    dark_ += means.lt(Brightness::kDark).sum().item<int64_t>();
    light_ += means.gt(Brightness::kLight).sum().item<int64_t>();
  }

  // Writes the lines of all ranks in the order of the split, as their batches follow each other.
  void write(const std::string& mine) {
    for (const auto& text : runtime_.communicator.gather_texts(mine)) {
      if (file_) file_->write(text.data(), text.size());
    }
  }

  std::vector<std::filesystem::path> inputs_;  // new files, in place of a split
  std::vector<std::string> files_;             // of each sample of these
  std::optional<DurableFile> file_;            // on rank 0
  std::optional<WorstPredictions> worst_;      // of this rank, if they are asked for
  bool names_ = false;                         // whether samples have names
  bool begun_ = false;
  int64_t correct_ = 0, classified_ = 0;
  int64_t dark_ = 0, light_ = 0;  // of the new files, where they are pictures of one channel
};

}  // namespace

void write_inputs(const std::filesystem::path& list, const std::vector<std::string>& files) {
  std::string text;
  for (const auto& file : files) text.append(file).push_back('\0');
  replace_file(list, text);
}

std::vector<std::filesystem::path> read_inputs(const std::filesystem::path& list) {
  std::vector<std::filesystem::path> files;
  std::istringstream stream(content_of(list));
  for (std::string file; std::getline(stream, file, '\0');) files.emplace_back(file);
  return files;
}

std::unique_ptr<WorkerTask> make_inference(const WorkerPlace& place) {
  if (place.task == Task::kEvaluate) return std::make_unique<EvaluationTask>(place);
  return std::make_unique<PredictionTask>(place);
}

}  // namespace ddprun
