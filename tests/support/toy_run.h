// SPDX-License-Identifier: MIT
// A whole training of the toy experiment, on ranks that are threads.
#pragma once

#include "checkpoint/checkpoint.h"
#include "comm/communicator.h"
#include "comm/replicate.h"
#include "features/callbacks/callbacks.h"
#include "features/features.h"
#include "sharing/master_weights.h"
#include "support/error_of.h"
#include "support/ranks.h"
#include "support/toy.h"
#include "train/trainer.h"
#include "weights/base_weights.h"
#include "weights/checkpoint_exchange.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace ddprun::testing {

// A new folder for one test, removed with the object.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "ddprun_test_XXXXXX").string();
    path_ = mkdtemp(name.data());
    std::filesystem::create_directories(path_ / "checkpoints");
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// Keeps the rows it is given.
class RowKeeper : public Logger {
 public:
  void start(const RunStart&) override {}
  void metrics(const MetricRow& row) override { (row.split == "system" ? measured : rows).push_back(row); }
  void progress(const RunProgress& shown) override { progress_seen.push_back(shown); }
  void histograms(const HistogramTable& table) override { histograms_seen.push_back(table); }
  void event(const RunEvent& event) override { events.push_back(event); }
  void predictions(const PredictionTable& table) override { predicted.push_back(table); }
  std::vector<MetricRow> rows, measured;  // of the split "system" the second
  std::vector<RunProgress> progress_seen;
  std::vector<PredictionTable> predicted;
  std::vector<HistogramTable> histograms_seen;
  std::vector<RunEvent> events;
};

struct ToyRun {
  Experiment experiment;
  int64_t ranks = 1;
  int64_t devices = 0;  // of the one rank, with a copy of the model on each (trainer.strategy dp); 0: without copies
  int64_t train_samples = 103;
  int64_t val_samples = 40;
  std::filesystem::path folder;                          // for checkpoints; empty: one that is the result's
  std::filesystem::path resume_from;                     // a checkpoint; empty: from the start
  std::function<bool(int64_t rank, int64_t step)> stop;  // asked after each step of each rank
  double lr = 0.1;
  std::function<std::shared_ptr<Dataset>(int64_t train, int64_t val)> make_dataset = [](int64_t train, int64_t val) {
    return std::make_shared<ToyDataset>(train, val);
  };
  std::function<std::shared_ptr<Model>()> make_model = [] { return std::make_shared<ToyModel>(); };
  std::function<std::shared_ptr<Optimizer>(double rate)> make_optimizer = [](double rate) {
    return std::make_shared<ToySgd>(rate);
  };
  std::function<std::shared_ptr<DeviceBackend>(int64_t rank)> make_backend;  // empty: none
  std::function<std::vector<NamedCallback>()> make_callbacks;                // of one rank; empty: none
  std::function<std::unique_ptr<Feature>()> make_feature;                    // one more, the last; empty: none
  double step_seconds = 1;  // each step takes so long, as far as the ranks' agreement can see
};

struct ToyResult {
  RunEnd end;                       // of rank 0
  std::vector<TensorDict> weights;  // of each rank
  std::vector<MetricRow> rows, measured;
  std::vector<RunProgress> progress;
  std::vector<PredictionTable> predicted;
  std::vector<HistogramTable> histograms;
  std::vector<RunEvent> events;
  MetricHistory history;
  std::string graph_state;  // of rank 0, as replayed
  int64_t replayed = 0;     // steps
  std::shared_ptr<TempFolder> own_folder;
};

// The model and its copies, whose weights are others until the first refresh().
inline std::shared_ptr<DataParallel> on_devices(const ToyRun& run, const std::shared_ptr<Model>& model) {
  if (run.devices == 0) return nullptr;
  std::vector<DataParallel::Copy> copies{{model, at::kCPU}};
  for (int64_t i = 1; i < run.devices; ++i) {
    copies.push_back({run.make_model(), at::kCPU});
    copies.back().model->prepare({.sample_shape = {8}, .classes = 3});
  }
  return std::make_shared<DataParallel>(copies);
}

// One attempt. Throws RollBack if all ranks roll back.
inline ToyResult train_toy_once(const ToyRun& run, const std::shared_ptr<RowKeeper>& rows) {
  ToyResult result;
  result.weights.resize(run.ranks);
  const auto saving = c10::make_intrusive<c10d::HashStore>();
  std::mutex seeding;  // the default generator is the process's
  on_ranks(run.ranks, [&](Communicator& communicator) {
    const int64_t rank = communicator.world().rank;
    const auto model = run.make_model();
    {
      std::scoped_lock lock(seeding);
      torch::manual_seed(run.experiment.seed);
      model->prepare({.sample_shape = {8}, .classes = 3});
    }
    const auto backend = run.make_backend ? run.make_backend(rank) : nullptr;
    const auto device = backend && !backend->devices().empty() ? backend->device() : c10::Device(c10::kCPU);
    const Precision precision(run.experiment.trainer, device.type());
    model->to(device);
    precision.convert(*model);
    broadcast_state(*model, communicator);
    const auto first_weights = digests_of_weights(*model);
    const auto optimizer = started_optimizer(run.make_optimizer(run.lr), *model, run.experiment);
    const MeanCrossEntropy objective;
    std::vector<LoggerHub::Entry> entries;
    if (rank == 0) entries.push_back({"rows", rows});
    LoggerHub loggers(entries);
    const auto errors = std::make_shared<ErrorExchange>(saving, rank, run.ranks, 60);
    const CheckpointWriter::Ranks ranks{rank, run.ranks, [errors](const auto& error) { return errors->agree(error); },
                                        [errors](const auto& text) { errors->leave(text); },
                                        [errors](int64_t from) { return errors->take(from); }};
    BackgroundSaver checkpoints(std::make_shared<CheckpointWriter>(run.folder, run.experiment.checkpoint.keep, ranks));
    Trainer* self = nullptr;
    double asked = 0;  // once in each step
    Trainer trainer(
        {.experiment = run.experiment,
         .communicator = communicator,
         .model = model,
         .dataset = run.make_dataset(run.train_samples, run.val_samples),
         .optimizer = optimizer,
         .objective = objective,
         .evaluation_objective = objective,
         .loggers = loggers,
         .saver = checkpoints,
         .run_dir = run.folder,
         .precision = precision,
         .backend = backend,
         .device = device,
         .parallel = on_devices(run, model),
         .first_weights = first_weights,
         .poisons_old_weights = true},
        [&](const Context& context, const TrainPlan& plan) {
          auto features = make_features(context, plan);
          if (run.make_callbacks) features.add(std::make_unique<Callbacks>(run.make_callbacks(), context.communicator));
          if (run.make_feature) features.add(run.make_feature());
          return features;
        },
        [&] { return ++asked, run.stop && run.stop(rank, self->state().step); },
        [&] { return run.step_seconds * asked; });
    self = &trainer;
    if (!run.resume_from.empty()) {
      const auto fit = [&](Checkpoint& saved) { fit_to_precision(saved, *model, run.experiment.trainer.precision); };
      trainer.restore(read_on_all(run.resume_from, communicator, fit), run.resume_from);
    }
    const auto end = trainer.run();
    loggers.flush();
    for (const auto& tensor : state_tensors(*model)) {  // who compares them is on another stream
      result.weights[rank][tensor.name] = tensor.value.detach().to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
    }
    if (rank != 0) return;
    result.end = end;
    result.history = trainer.state().history;
    result.graph_state = trainer.step().graphs().state();
    result.replayed = trainer.step().graphs().replayed();
  });
  result.rows = rows->rows;
  result.measured = rows->measured;
  result.progress = rows->progress_seen;
  result.predicted = rows->predicted;
  result.histograms = rows->histograms_seen;
  result.events = rows->events;
  return result;
}

inline ToyResult train_toy(ToyRun run) {
  const auto rows = std::make_shared<RowKeeper>();
  const auto own_folder = run.folder.empty() ? std::make_shared<TempFolder>() : nullptr;
  if (own_folder) run.folder = own_folder->path();
  for (;;) {
    try {
      auto result = train_toy_once(run, rows);
      result.own_folder = own_folder;
      return result;
    } catch (const RollBack&) {
      std::vector<CheckpointFlaw> flaws;
      run.resume_from = newest_checkpoint(run.folder, flaws).value().path;
    }
  }
}

// What a training of the user's making is refused with; empty where it ends well.
template <class Error = UserError>
std::string error_of_training(const ToyRun& run) {
  return error_of<Error>([&] { train_toy(run); });
}

// The values of one metric in the rows of a split, in their order.
inline std::vector<double> values_of(const std::vector<MetricRow>& rows, const std::string& split,
                                     const std::string& name) {
  std::vector<double> values;
  for (const auto& row : rows) {
    for (const auto& [metric, value] : row.values) {
      if (row.split == split && metric == name) values.push_back(value);
    }
  }
  return values;
}

// The steps of the rows of a split, in their order.
inline std::vector<int64_t> steps_of(const std::vector<MetricRow>& rows, const std::string& split) {
  std::vector<int64_t> steps;
  for (const auto& row : rows) {
    if (row.split == split) steps.push_back(row.step);
  }
  return steps;
}

// The bytes of a file of the last checkpoint, whose folder is there as long as the result.
inline std::string kept_bytes(const ToyResult& result, const std::string& name) {
  std::ifstream in(std::filesystem::path(result.end.checkpoint) / (name + ".safetensors"), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// The rows of later steps than `after` but for their times, with the bits of their numbers.
inline std::vector<std::string> texts_of(const std::vector<MetricRow>& rows, int64_t after = 0) {
  std::vector<std::string> texts;
  for (const auto& row : rows) {
    if (row.step <= after) continue;
    auto text = row.split + " " + std::to_string(row.step) + " " + std::to_string(row.samples);
    for (const auto& [name, value] : row.values) {
      const bool is_time = name.ends_with("_per_second") || name.ends_with("_seconds");
      if (!is_time) text += " " + name + "=" + std::to_string(std::bit_cast<uint64_t>(value));
    }
    texts.push_back(text);
  }
  return texts;
}

// Two attempts at a run: one that is asked on rank 0 to stop after so many steps, and the one that resumes it.
struct TwoAttempts {
  ToyResult first, second;
};
inline TwoAttempts train_toy_twice(ToyRun run, int64_t stop_at) {
  auto rest = run;
  run.stop = [stop_at](int64_t rank, int64_t step) { return rank == 0 && step >= stop_at; };
  auto first = train_toy(run);
  rest.resume_from = first.end.checkpoint;
  return {std::move(first), train_toy(rest)};
}

inline double largest_difference(const TensorDict& a, const TensorDict& b) {
  double largest = 0;
  for (const auto& [name, value] : a) largest = std::max(largest, (value - b.at(name)).abs().max().item<double>());
  return largest;
}

inline bool same_bits(const TensorDict& a, const TensorDict& b) {
  return a.size() == b.size() &&
         std::ranges::all_of(a, [&](const auto& entry) { return at::equal(entry.second, b.at(entry.first)); });
}

}  // namespace ddprun::testing
