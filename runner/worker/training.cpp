// SPDX-License-Identifier: MIT
#include "worker/training.h"

#include "checkpoint/background_saver.h"
#include "comm/error_exchange.h"
#include "comm/replicate.h"
#include "base/clock.h"
#include "launch/heartbeat.h"
#include "base/host_name.h"
#include "launch/run_folder.h"
#include "base/log.h"
#include "plugin_host/plugin_call.h"
#include "train/checkpoint_exchange.h"
#include "worker/fault.h"
#include "worker/flight_record_writer.h"
#include "train/layout_trial.h"
#include "worker/model_summary.h"
#include "train/model_weights.h"
#include "worker/replica.h"
#include "train/rng_state.h"
#include "train/shard_proof.h"
#include "metrics/summary.h"
#include "train/trainer.h"
#include "metrics/watched_objective.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>

#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <utility>

namespace ddprun {
namespace {

// The checkpoint to go on from, which the launcher has verified; empty at the start of a run.
std::string resumed_from() {
  const char* checkpoint = std::getenv("DDPRUN_RESUME");
  return checkpoint ? checkpoint : "";
}

int64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

// Trains. Its parts are made in this order and destroyed in the reverse.
class Training final : public WorkerTask {
 public:
  Training(WorkerPlace place, StopRequested stop_requested)
      : stop_requested_(std::move(stop_requested)),
        since_command_(place.started_at),
        heartbeat_(place.heartbeat),
        fault_(fault_from_environment(
            place.rank, place.attempt, [this]() -> Model& { return *replica_.model; }, stop_requested_)),
        replica_(std::move(place), [this](Activity activity) { moved(activity, 0); }) {}

  int run() override {
    prepare();
    auto trainer = make_trainer();
    announce(trainer);
    replica_.communicator.leave_hangs_to_launcher(replica_.experiment.launch.hang_seconds);
    try {
      const auto end = trainer.run();
      finish(trainer, end);
      return end.status == "preempted" ? kExitPreempted : kExitDone;
    } catch (...) {
      phase_ = trainer.phase();
      if (!trainer.refused()) step_ = trainer.state().step;
      throw;
    }
  }

  const char* phase() const override { return phase_; }
  long step() const override { return step_; }

 private:
  // Model, data, optimizer, equal on all ranks.
  void prepare() {
    replica_.build([this](Model& model) {
      if (replica_.dataset->size(Split::kTrain) == 0) throw UserError("dataset: it has no training samples");
      if (!resumed_from().empty()) return;
      const auto& initial = replica_.experiment.trainer.init_weights;
      if (!initial.empty()) {
        if (replica_.place.rank == 0) load_initial_weights(model, initial);  // the others get its weights
        return;
      }
      in_plugin({"model", "initialize"}, [&] { model.initialize(*replica_.dataset); });
    });
    require_same_data(*replica_.dataset, replica_.experiment.trainer.verify_shards, replica_.communicator);
    objective_ = objective(Phase::kTraining);
    if (!resumed_from().empty()) {
      resumed_ = read_on_all(resumed_from(), replica_.communicator);
      keep_batch();
    }
    replica_.set_layout(layout());
    optimizer_ = replica_.plugins.make_optimizer(replica_.experiment.optimizer);
    const auto parameters = trainable_parameters(*replica_.model);
    if (parameters.empty()) throw UserError("model: it registers no trainable parameters");
    in_plugin({"optimizer", "start"}, [&] { optimizer_->start(parameters); });
    seed_generators(replica_.experiment.seed, replica_.place.rank, replica_.backend.get());
    evaluation_objective_ = objective(Phase::kEvaluation);
    loggers_ = std::make_unique<LoggerHub>(make_loggers());
    if (replica_.place.world_size > 1) flight_record_.emplace(logs(), replica_.place.rank, recorder());
    checkpoints_ = make_saver();
  }

  std::unique_ptr<WatchedObjective> objective(Phase phase) const {
    const auto data = in_plugin({"dataset", "spec"}, [&] { return replica_.dataset->spec(); });
    return watched_objective(replica_.experiment, *replica_.model, data, phase);
  }

  // What batch_per_worker came to when the run began, in whatever world it goes on.
  void keep_batch() {
    auto& trainer = replica_.experiment.trainer;
    if (trainer.batch_per_worker > 0) trainer.global_batch = saved_state().global_batch;
  }

  TrainState saved_state() const { return TrainState::from_json(resumed_->progress, resumed_from()); }

  // A resumed run keeps what was found when it began: another order sums in another order.
  Layout layout() {
    const auto& config = replica_.experiment.trainer;
    if (config.layout != "auto") return layout_of_name(config.layout);
    if (resumed_) return layout_of_name(saved_state().layout);
    if (config.deterministic) return Layout::kChannelsFirst;
    return find_layout({.model = *replica_.model,
                        .objective = *objective_,
                        .dataset = *replica_.dataset,
                        .precision = replica_.precision,
                        .device = replica_.device,
                        .backend = replica_.backend.get(),
                        .communicator = replica_.communicator,
                        .samples = trial_samples()});
  }

  // On the CPU as many at any number of workers, so that they find the same; on a GPU what a step has there.
  int64_t trial_samples() const {
    const auto batch = replica_.experiment.trainer.global_batch;
    return replica_.backend ? std::max<int64_t>(1, batch / replica_.place.world_size) : batch;
  }

  std::filesystem::path logs() const { return replica_.place.run_dir / "logs"; }

  std::function<FlightRecord()> recorder() const {
    if (!replica_.backend) return gloo_flight_record;
    return [backend = replica_.backend] { return backend->flight_record(); };
  }

  std::vector<LoggerHub::Entry> make_loggers() {
    std::vector<LoggerHub::Entry> loggers;
    if (replica_.place.rank != 0) return loggers;
    for (const auto& choice : replica_.experiment.loggers) {
      if (choice.plugin == "console" && log::is_quiet()) continue;
      loggers.push_back({choice.plugin, replica_.plugins.make_logger(choice), choice.path});
    }
    return loggers;
  }

  void moved(Activity activity, int64_t step) {
    heartbeat_.beat(activity, step);
    if (fault_) fault_(name_of(activity), step);
    if (activity == Activity::kAgreeing && first_step_seconds_ == 0) {
      first_step_seconds_ = since_command_.seconds();
      tell_of_unused_objective();
    }
  }

  // After the first step.
  void tell_of_unused_objective() const {
    const auto& experiment = replica_.experiment;
    if (replica_.place.rank != 0 || objective_->was_asked() || !experiment.config.find("objective")) return;
    log::warn(log::text("objective: the model ", experiment.model.plugin,
                        " has a loss of its own: what the experiment says of its objective is not used in training"));
  }

  std::unique_ptr<BackgroundSaver> make_saver() const {
    const auto& place = replica_.place;
    const auto errors = std::make_shared<ErrorExchange>(replica_.open_store("saving"), place.rank, place.world_size,
                                                        replica_.experiment.launch.timeout_seconds);
    auto writer = std::make_shared<CheckpointWriter>(
        place.run_dir, replica_.experiment.checkpoint.keep,
        CheckpointWriter::Ranks{place.rank, place.world_size,
                                [errors](const std::string& error) { return errors->agree(error); }});
    if (resumed_) writer->resume(resumed_->step);
    for (const auto& warning : writer->warnings()) log::warn(warning);
    return std::make_unique<BackgroundSaver>(std::move(writer), fault_);
  }

  Trainer make_trainer() {
    return Trainer(replica_.experiment,
                   {.communicator = replica_.communicator,
                    .model = replica_.model,
                    .dataset = replica_.dataset,
                    .optimizer = optimizer_,
                    .objective = *objective_,
                    .evaluation_objective = *evaluation_objective_,
                    .loggers = *loggers_,
                    .checkpoints = *checkpoints_,
                    .run_dir = replica_.place.run_dir,
                    .precision = replica_.precision,
                    .backend = replica_.backend,
                    .device = replica_.device,
                    .parallel = replica_.data_parallel(),
                    .images = replica_.images(),
                    .moved = [this](Activity activity, int64_t step) { moved(activity, step); },
                    .command_started_at = replica_.place.started_at},
                   stop_requested_);
  }

  // Goes on from the checkpoint where there is one, and tells the loggers that the run begins.
  void announce(Trainer& trainer) {
    const auto resume = resumed_from();
    if (resumed_) {
      trainer.restore(*resumed_, resume);
      resumed_.reset();
    }
    const auto& place = replica_.place;
    const bool keeps_own_folder = place.local_rank == 0 && kept_elsewhere(place.run_dir);
    if (place.rank == 0 || keeps_own_folder) commit_record(place.run_dir, place.attempt);
    ranks_ = places();
    const auto& data = *replica_.dataset;
    const auto spec = in_plugin({"dataset", "spec"}, [&] { return data.spec(); });
    int64_t parameters = 0;
    for (const auto& parameter : trainable_parameters(*replica_.model)) parameters += parameter.value.numel();
    loggers_->start({.time = wall_seconds(),
                     .name = replica_.experiment.name,
                     .run_dir = replica_.place.run_dir,
                     .config_yaml = to_yaml(replica_.experiment.config, false),
                     .attempt = replica_.place.attempt,
                     .resumed_step = trainer.state().step,
                     .world_size = replica_.place.world_size,
                     .nodes = replica_.place.nodes,
                     .global_batch = replica_.experiment.trainer.global_batch,
                     .steps_per_epoch = trainer.steps_per_epoch(),
                     .max_epochs = replica_.experiment.trainer.max_epochs,
                     .max_steps = trainer.max_steps(),
                     .parameters = parameters,
                     .model = replica_.experiment.model.plugin,
                     .dataset = replica_.experiment.dataset.plugin,
                     .optimizer = replica_.experiment.optimizer.plugin,
                     .device = device_text(),
                     .backend = backend_name(),
                     .ranks = ranks_,
                     .train_samples = data.size(Split::kTrain),
                     .val_samples = data.size(Split::kVal),
                     .test_samples = data.size(Split::kTest),
                     .sample_shape = spec.sample_shape,
                     .classes = spec.classes,
                     .layers = layers()});
    if (const auto& state = trainer.state(); !resume.empty())
      loggers_->event({.time = wall_seconds(),
                       .epoch = state.step / trainer.steps_per_epoch() + 1,
                       .step = state.step,
                       .kind = "resumed",
                       .text = "from " + resume});
    if (replica_.place.rank == 0 && replica_.dataset->size(Split::kVal) == 0) tell_of_missing_validation();
  }

  std::vector<LayerSummary> layers() {
    if (replica_.place.rank != 0) return {};
    return layers_of({.model = *replica_.model,
                      .dataset = *replica_.dataset,
                      .precision = replica_.precision,
                      .device = replica_.device,
                      .backend = replica_.backend.get()});
  }

  std::string backend_name() const {
    return replica_.communicator.alone() ? "" : replica_.experiment.launch.exchange(replica_.backend != nullptr);
  }

  // Of all ranks. Collective.
  std::vector<RankPlace> places() {
    const auto device = replica_.backend ? replica_.device.str() + ", " + device_text() : device_text();
    const auto hosts = replica_.communicator.gather_texts(host_name());
    const auto devices = replica_.communicator.gather_texts(device);
    std::vector<RankPlace> places;
    for (size_t rank = 0; rank < hosts.size(); ++rank) places.push_back({hosts[rank], devices[rank]});
    return places;
  }

  // "NVIDIA H200, 139 GiB"; with trainer.strategy dp "4 GPUs (dp): NVIDIA H200, 139 GiB".
  std::string device_text() const {
    if (!replica_.backend) return "cpu";
    const auto text = replica_.backend->description();
    if (replica_.experiment.trainer.strategy != "dp") return text;
    const auto gpus = replica_.backend->devices().size();
    return log::text(gpus, gpus == 1 ? " GPU" : " GPUs", " (dp): ", text);
  }

  void tell_of_missing_validation() const {
    if (replica_.dataset->size(Split::kTest) > 0) {
      log::info("the dataset has no validation split: val/ metrics are computed on its test split");
    } else if (replica_.experiment.early_stopping) {
      log::warn(
          "early_stopping: the dataset has neither a validation nor a test split, so nothing can stop the run early");
    }
  }

  void finish(const Trainer& trainer, const RunEnd& end) {
    if (replica_.place.rank != 0) return;
    loggers_->flush();  // the summary stands for all rows
    write_summary(replica_.place.run_dir, {.end = end,
                                           .first_step_seconds = first_step_seconds_,
                                           .phases = trainer.phases(),
                                           .peak_rss_bytes = peak_rss_bytes(),
                                           .layout = layout_name(replica_.precision.layout()),
                                           .cuda_graph = trainer.step().graph_state(),
                                           .replayed_steps = trainer.step().replayed(),
                                           .attempt = replica_.place.attempt,
                                           .backend = backend_name(),
                                           .ranks = ranks_});
    loggers_->finish(end);
  }

  StopRequested stop_requested_;
  TimeSince since_command_;
  std::optional<Checkpoint> resumed_;  // until it is restored
  HeartbeatWriter heartbeat_;
  ReachPoint fault_;
  Replica replica_;
  std::shared_ptr<Optimizer> optimizer_;
  std::unique_ptr<WatchedObjective> objective_, evaluation_objective_;
  std::unique_ptr<LoggerHub> loggers_;
  std::unique_ptr<BackgroundSaver> checkpoints_;
  std::optional<FlightRecordWriter> flight_record_;
  std::vector<RankPlace> ranks_;
  const char* phase_ = "starting";
  long step_ = -1;
  double first_step_seconds_ = 0;
};

}  // namespace

std::unique_ptr<WorkerTask> make_training(const WorkerPlace& place, StopRequested stop_requested) {
  return std::make_unique<Training>(place, std::move(stop_requested));
}

}  // namespace ddprun
