// SPDX-License-Identifier: MIT
#include "base/clock.h"
#include "base/log.h"
#include "base/program.h"
#include "checkpoint/background_saver.h"
#include "comm/communicator.h"
#include "comm/replicate.h"
#include "config/compose.h"
#include "config/experiment_reader.h"
#include "config/resumed_keys.h"
#include "data/account.h"
#include "data/data_form.h"
#include "features/features.h"
#include "launch/heartbeat.h"
#include "launch/run_folder.h"
#include "metrics/objective.h"
#include "metrics/run_summary.h"
#include "plugin_host/plugin_call.h"
#include "sharing/master_weights.h"
#include "train/same_data.h"
#include "train/trainer.h"
#include "weights/base_weights.h"
#include "weights/checkpoint_exchange.h"
#include "weights/freezing.h"
#include "weights/model_weights.h"
#include "weights/precision.h"
#include "weights/state_guard.h"
#include "worker/data_demands.h"
#include "worker/fault_injection.h"
#include "worker/flight_record_writer.h"
#include "worker/model_summary.h"
#include "worker/runtime.h"
#include "worker/worker.h"

#include <ddprun/error.h>

#include <ATen/ATen.h>

#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <tuple>
#include <utility>

namespace ddprun {
namespace {

int64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

// Returns what failure reports call the part of a training that the activity begins, or is in.
const char* phase_of(Activity activity, const char* now) {
  switch (activity) {
    case Activity::kLoadingData: return "training";
    case Activity::kEvaluating: return "evaluating";
    case Activity::kSaving: return "saving";
    default: return now;
  }
}

// Trains. Its parts are created in this order and destroyed in reverse.
class TrainTask final : public WorkerTask {
 public:
  TrainTask(WorkerPlace place, StopRequested stop_requested)
      : stop_requested_(std::move(stop_requested)),
        since_command_(place.started_at),
        heartbeat_(place.heartbeat),
        fault_(fault_from_environment(
            place.rank, place.attempt.number, [this]() -> Model& { return *runtime_.model; }, stop_requested_)),
        runtime_(std::move(place), [this](Activity activity) { on_activity(activity, 0); }) {}

  int run() override {
    prepare();
    auto trainer = make_trainer();
    announce(trainer);
    stop_requested_();  // the trainer hears of it from here on
    runtime_.communicator.leave_hangs_to_launcher(runtime_.experiment.launch.hang_seconds);
    try {
      const auto end = trainer.run();
      finish(trainer, end);
      leave_together();
      return enum_of<RunStatus>(end.status) == RunStatus::kPreempted ? kExitPreempted : kExitDone;
    } catch (const RollBack&) {
      loggers_->flush_all();
      leave_together();
      return kWorkerRollsBack;
    } catch (...) {
      if (!trainer.validator().refused()) step_ = trainer.state().step;
      throw;
    }
  }

  const char* phase() const override { return phase_; }
  long step() const override { return step_; }

 private:
  // Prepares model, data and optimizer, equal on all ranks.
  void prepare() {
    runtime_.build([this](Model& model) {
      if (runtime_.dataset->size(Split::kTrain) == 0) throw UserError("dataset: it has no training samples");
      begin(model);
    });
    require_something_to_learn(runtime_.experiment, *runtime_.dataset, *runtime_.model);
    require_same_data(*runtime_.dataset, runtime_.experiment, runtime_.communicator);
    objective_ = objective();
    if (!runtime_.place.attempt.checkpoint.empty()) {
      resumed_ = read_on_all(runtime_.place.attempt.checkpoint, runtime_.communicator, [this](Checkpoint& checkpoint) {
        fit_to_precision(checkpoint, *runtime_.model, runtime_.experiment.trainer.precision);
      });
      keep_batch();
    }
    runtime_.set_memory_format(memory_format());
    auto optimizer = runtime_.plugins.make_optimizer(runtime_.experiment.optimizer);
    in_plugin({"model", "prepare"}, [&] { require_trainable(*runtime_.model); });
    take_up_frozen(*runtime_.model, runtime_.experiment.features.of<FreezingConfig>());
    optimizer_ = started_optimizer(std::move(optimizer), *runtime_.model, runtime_.experiment);
    layers_ = layers();  // while none is frozen
    seed_generators(runtime_.experiment.seed, runtime_.place.rank, runtime_.backend.get());
    evaluation_objective_ = objective();
    loggers_ = std::make_unique<LoggerHub>(make_loggers());
    if (runtime_.place.attempt.world_size > 1) flight_record_.emplace(logs(), runtime_.place.rank, recorder());
    checkpoints_ = make_saver();
  }

  // Gives the model the weights that the run begins with; a resumed one needs them where checkpoints leave some out.
  void begin(Model& model) {
    const auto& checkpoint = runtime_.place.attempt.checkpoint;
    const bool is_rank_zero = runtime_.place.rank == 0;  // the others get its weights
    const bool leaves_out = runtime_.experiment.checkpoint.only_trainable, resumes = !checkpoint.empty();
    if (resumes && !is_rank_zero) return;
    const bool lacks_some = resumes && read_checkpoint_info(checkpoint).left_out.has_value();
    if (resumes && !leaves_out && !lacks_some) return;
    try {
      const auto loaded = begin_weights(model, runtime_.dataset.get(), runtime_.experiment.pretrained,
                                        is_rank_zero ? PretrainedFile::kRead : PretrainedFile::kLeave);
      if (!loaded.empty()) log::info("pretrained: " + loaded);
    } catch (const UserError& error) {
      if (!resumes) throw;
      throw UserError(log::text(error.what(), "; the run needs it to resume, since ",
                                lacks_some ? checkpoint.string() + " leaves out the weights that never train"
                                           : "checkpoint.only_trainable leaves its weights out of checkpoints"));
    }
    if (is_rank_zero && (leaves_out || lacks_some)) first_weights_ = digests_of_weights(model);
  }

  std::unique_ptr<WatchedObjective> objective() const {
    const auto data = in_plugin({"dataset", "spec"}, [&] { return runtime_.dataset->spec(); });
    return watched_objective(runtime_.experiment.objective, runtime_.plugins, *runtime_.model, data);
  }

  // Keeps the global batch that batch_per_worker gave when the run started, whatever world it resumes in.
  void keep_batch() {
    auto& trainer = runtime_.experiment.trainer;
    if (trainer.batch_per_worker == 0) return;
    const auto kept = saved_state().kept_batch(trainer, runtime_.place.attempt.checkpoint);
    if (kept != trainer.global_batch && runtime_.place.rank == 0)
      log::info(log::text("trainer.batch_per_worker: the run keeps its global batch of ", kept, ", which is not ",
                          trainer.batch_per_worker, " for each worker here"));
    trainer.global_batch = kept;
  }

  TrainState saved_state() const {
    return TrainState::from_json(resumed_->progress, runtime_.place.attempt.checkpoint);
  }

  // Returns the memory format. A resumed run keeps that of its start, since another order of numbers rounds
  // differently.
  MemoryFormat memory_format() const {
    const auto& config = runtime_.experiment.trainer;
    if (config.memory_format != MemoryFormat::kAuto) return config.memory_format;
    if (resumed_) return saved_state().memory_format;
    const auto data = in_plugin({"dataset", "spec"}, [&] { return runtime_.dataset->spec(); });
    return suitable_memory_format(*runtime_.model, data, config.precision, runtime_.device.type());
  }

  std::filesystem::path logs() const { return runtime_.place.attempt.run_dir / "logs"; }

  std::function<FlightRecord()> recorder() const {
    if (!runtime_.backend) return gloo_flight_record;
    return [backend = runtime_.backend] { return backend->flight_record(); };
  }

  std::vector<LoggerHub::Entry> make_loggers() {
    std::vector<LoggerHub::Entry> loggers;
    if (runtime_.place.rank != 0) return loggers;
    for (const auto& choice : runtime_.experiment.loggers) {
      auto logger = runtime_.plugins.make_logger(choice);
      const bool keeps = !logger->only_shows();
      if (keeps || !log::is_quiet()) loggers.push_back({choice.plugin, std::move(logger), choice.path, keeps});
    }
    return loggers;
  }

  void on_activity(Activity activity, int64_t step) {
    heartbeat_.beat(activity, step);
    if (fault_) fault_(name_of(activity), step);
    if (activity == Activity::kAgreeing && first_step_seconds_ == 0) {
      first_step_seconds_ = since_command_.seconds();
      warn_of_unused_objective();
    }
  }

  // Warns of an objective that is not used, after the first step, or whose counts are not.
  void warn_of_unused_objective() const {
    const auto& experiment = runtime_.experiment;
    if (runtime_.place.rank != 0 || !experiment.config.find("objective")) return;
    if (!objective_->was_asked()) {
      log::warn("objective: " + unused_objective(experiment));
    } else if (evaluation_objective_->was_asked() && !evaluation_objective_->was_asked_for_counts()) {
      if (!is_built_in_objective(experiment.objective.plugin)) return;  // what it measures is not known
      const auto missing = metric_names(experiment.objective.plugin, *objective_).of_evaluations;
      if (missing.empty()) return;
      log::warn(log::text("objective.metrics: step() of the model ", experiment.model.plugin,
                          " does not return the objective's counts() in evaluations, so that ", missing.front(),
                          " and its like are not measured (`ddprun docs plugins`)"));
    }
  }

  std::unique_ptr<BackgroundSaver> make_saver() const {
    const auto& place = runtime_.place;
    const auto errors =
        std::make_shared<ErrorExchange>(runtime_.open_store("saving"), place.rank, place.attempt.world_size,
                                        runtime_.experiment.launch.timeout_seconds);
    auto writer = std::make_shared<CheckpointWriter>(
        place.attempt.run_dir, runtime_.experiment.checkpoint.keep,
        CheckpointWriter::Ranks{place.rank, place.attempt.world_size,
                                [errors](const std::string& error) { return errors->agree(error); },
                                [errors](const std::string& text) { errors->leave(text); },
                                [errors](int64_t rank) { return errors->take(rank); }});
    if (resumed_) writer->resume(resumed_->step);
    for (const auto& warning : writer->warnings()) log::warn(warning);
    return std::make_unique<BackgroundSaver>(std::move(writer), fault_);
  }

  Trainer make_trainer() {
    return Trainer({.experiment = runtime_.experiment,
                    .communicator = runtime_.communicator,
                    .model = runtime_.model,
                    .dataset = runtime_.dataset,
                    .optimizer = optimizer_,
                    .objective = *objective_,
                    .evaluation_objective = *evaluation_objective_,
                    .loggers = *loggers_,
                    .saver = *checkpoints_,
                    .run_dir = runtime_.place.attempt.run_dir,
                    .writes_to_run_dir = may_write_to_run(runtime_.place.attempt),
                    .precision = runtime_.precision,
                    .backend = runtime_.backend,
                    .device = runtime_.device,
                    .parallel = runtime_.data_parallel(),
                    .images = runtime_.images(),
                    .on_activity =
                        [this](Activity activity, int64_t step) {
                          phase_ = phase_of(activity, phase_);
                          on_activity(activity, step);
                        },
                    .plugins = &runtime_.plugins,
                    .first_weights = first_weights_,
                    .command_started_at = runtime_.place.started_at,
                    .poisons_old_weights = std::getenv("DDPRUN_POISON") != nullptr},
                   make_features, stop_requested_);
  }

  // Says that a resumed run has done all of its steps. Throws UserError if settings of the training have changed
  // since: config.yaml would say of these steps what they were not made with.
  void require_no_training(int64_t steps) const {
    const auto file = runtime_.place.attempt.run_dir / "config.yaml";
    const auto changed = changes_of_training(load_yaml(file), load_yaml(runtime_.place.config));
    if (!changed.empty())
      throw UserError(
          log::text(changed.front(), ": the run has ended its training after ", steps,
                    " steps, so that nothing would be trained with it",
                    changed.size() > 1 ? log::text(" (nor with ", changed.size() - 1, " more)") : "",
                    "; leave it out, or let the run continue, too (trainer.max_epochs, trainer.max_steps)"));
    log::info(log::text("the run has ended its training after ", steps, " steps: it is only tested again"));
  }

  // Warns of settings that give the rest of a begun epoch another order than its first part had.
  void warn_of_another_order() const {
    const auto file = runtime_.place.attempt.run_dir / "config.yaml";
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored)) return;  // it starts from another run's checkpoint
    std::vector<std::string> of_another_version;
    const auto before = read_experiment(load_yaml(file), of_another_version).trainer;
    const auto& now = runtime_.experiment.trainer;
    const auto order = [](const TrainerConfig& of) {
      return std::tuple(of.shuffle, of.overfit_batches, of.sampling.balance_classes, of.sampling.weights);
    };
    if (order(before) != order(now))
      log::warn(
          "trainer: the order of the samples (shuffle, sampling, overfit_batches) changes within an epoch: some come "
          "twice in this one, and others not at all");
  }

  // Restores the checkpoint, if there is one, and informs the loggers that the run begins.
  void announce(Trainer& trainer) {
    const auto resume = runtime_.place.attempt.checkpoint.string();
    if (resumed_) {
      trainer.restore(*resumed_, resume);
      resumed_.reset();
    }
    const auto& place = runtime_.place;
    if (place.rank == 0 && !resume.empty() && trainer.nothing_left()) require_no_training(trainer.state().step);
    if (place.rank == 0 && trainer.state().step % trainer.plan().steps_per_epoch() != 0) warn_of_another_order();
    const bool keeps_own_folder = place.local_rank == 0 && kept_elsewhere(place.attempt.run_dir);
    if (place.rank == 0 || keeps_own_folder) commit_record(place.attempt.run_dir, place.attempt.number);
    if (place.rank == 0) log_base(trainer.checkpoints().base());
    if (place.rank == 0 && runtime_.experiment.trainer.ema_decay > 0)
      log::info(
          "trainer.ema_decay: val/ and test/ are measured with the averaged weights, as predict and export take them");
    ranks_ = places();
    const auto& data = *runtime_.dataset;
    const auto spec = in_plugin({"dataset", "spec"}, [&] { return data.spec(); });
    int64_t parameters = 0;
    for (const auto& layer : layers_) parameters += layer.parameters;
    const bool is_range_test = runtime_.experiment.schedule.kind == ScheduleKind::kRangeTest;
    loggers_->start({.time = wall_seconds(),
                     .name = runtime_.experiment.name,
                     .run_dir = runtime_.place.attempt.run_dir,
                     .config_yaml = to_yaml(runtime_.experiment.config, false),
                     .attempt = runtime_.place.attempt.number,
                     .resumed_step = trainer.state().step,
                     .world_size = runtime_.place.attempt.world_size,
                     .nodes = runtime_.place.machines,
                     .global_batch = runtime_.experiment.trainer.global_batch,
                     .steps_per_epoch = trainer.plan().steps_per_epoch(),
                     .max_epochs = trainer.plan().epoch_of(trainer.plan().max_steps()),
                     .max_steps = trainer.plan().max_steps(),
                     .parameters = parameters,
                     .model = runtime_.experiment.model.plugin,
                     .dataset = runtime_.experiment.dataset.plugin,
                     .optimizer = runtime_.experiment.optimizer.plugin,
                     .device = device_text(),
                     .backend = backend_name(),
                     .ranks = ranks_,
                     .train_samples = data.size(Split::kTrain),
                     .val_samples = data.size(Split::kVal),
                     .test_samples = data.size(Split::kTest),
                     .sample_shape = spec.sample_shape,
                     .classes = spec.classes,
                     .layers = is_range_test ? std::vector<LayerSummary>() : layers_});  // it is about the lr
    if (const auto& state = trainer.state(); !resume.empty())
      loggers_->event({.time = wall_seconds(),
                       .epoch = state.step / trainer.plan().steps_per_epoch() + 1,
                       .step = state.step,
                       .kind = "resumed",
                       .text = "from " + resume});
    if (place.rank != 0) return;
    record_data_form(trainer.state().step);
    warn_of_doubts();
  }

  void log_base(const BaseWeights& base) const {
    if (!runtime_.experiment.checkpoint.only_trainable) return;
    if (!base.is_empty()) return log::info("checkpoint.only_trainable: " + base.text());
    log::warn("checkpoint.only_trainable: has no effect: " + base.text());
  }

  // For `ddprun export`, for those who ask what the run saw, and for the next attempt. Data that cannot be read here
  // fail in the first step, with an error of their own.
  void record_data_form(int64_t step) const {
    std::optional<DataForm> form, before;
    try {
      form = form_of(*runtime_.dataset);
      form->files = named_files(runtime_.experiment.config);
    } catch (const std::exception&) {
      return;
    }
    const auto& run_dir = runtime_.place.attempt.run_dir;
    try {
      if (step > 0) before = read_data_form(run_dir);
    } catch (const UserError& error) {
      log::warn(std::string(error.what()) + "; it is rewritten");
    }
    if (before) warn_of_changed_data(changes_since(*before, *form), step);
    if (step > 0) warn_of_other_files(run_dir, runtime_.experiment.config);
    write_data_form(run_dir, *form);
    const auto& account = form->account;
    if (!account.left_alone.empty() || !account.notes.empty()) log::info("data: " + account_text(form->account));
  }

  void warn_of_changed_data(const std::string& changes, int64_t step) const {
    if (changes.empty()) return;
    log::warn(
        log::text("dataset: the data are not those that the run has seen up to step ", step, ": ", changes,
                  ". It continues with what is there now; to train on the same, put the former data back and resume "
                  "from the checkpoint of step ",
                  step, " (checkpoint.keep), or start a new run"));
    loggers_->event({.time = wall_seconds(), .epoch = 0, .step = step, .kind = "data", .text = "changed: " + changes});
  }

  std::vector<LayerSummary> layers() {
    if (runtime_.place.rank != 0) return {};
    return layers_of({.model = *runtime_.model,
                      .dataset = *runtime_.dataset,
                      .precision = runtime_.precision,
                      .device = runtime_.device,
                      .backend = runtime_.backend.get()});
  }

  std::string backend_name() const {
    return !runtime_.communicator.is_distributed() ? ""
                                                   : runtime_.experiment.launch.exchange(runtime_.backend != nullptr);
  }

  // Returns the places of all ranks. Collective.
  std::vector<RankPlace> places() {
    const auto device = runtime_.backend ? runtime_.device.str() + ", " + device_text() : device_text();
    const auto hosts = runtime_.communicator.gather_texts(host_name());
    const auto devices = runtime_.communicator.gather_texts(device);
    std::vector<RankPlace> places;
    for (size_t rank = 0; rank < hosts.size(); ++rank) places.push_back({hosts[rank], devices[rank]});
    return places;
  }

  // Returns "NVIDIA H200, 139 GiB"; with trainer.strategy dp "4 GPUs (dp): NVIDIA H200, 139 GiB".
  std::string device_text() const {
    if (!runtime_.backend) return "cpu";
    const auto text = runtime_.backend->description();
    if (runtime_.experiment.trainer.strategy != Strategy::kDp) return text;
    const auto gpus = runtime_.backend->devices().size();
    return log::text(gpus, gpus == 1 ? " GPU" : " GPUs", " (dp): ", text);
  }

  void warn_of_doubts() const {
    const auto& data = *runtime_.dataset;
    for (const auto& line : doubts_with_data(runtime_.experiment, data)) log::warn(line);
    if (data.size(Split::kVal) == 0 && data.size(Split::kTest) > 0)
      log::info("the dataset has no validation split: val/ metrics are computed on its test split");
  }

  void finish(const Trainer& trainer, const RunEnd& end) {
    if (runtime_.place.rank != 0) return;
    const auto& run_dir = runtime_.place.attempt.run_dir;
    loggers_->flush_all();  // the summary must not precede its rows
    const auto earlier = read_troubles(run_dir);
    RunSummary summary{.end = end,
                       .first_step_seconds = first_step_seconds_,
                       .phases = trainer.log().phases(),
                       .peak_rss_bytes = peak_rss_bytes(),
                       .memory_format = runtime_.precision.memory_format(),
                       .cuda_graph = trainer.step().graphs().state(),
                       .replayed_steps = trainer.step().graphs().replayed(),
                       .attempt = runtime_.place.attempt.number,
                       .backend = backend_name(),
                       .averaged = runtime_.experiment.trainer.ema_decay > 0,
                       .history = trainer.state().history,
                       .best_checkpoint = best_checkpoint(end),
                       .ranks = ranks_,
                       .measured = trainer.log().ranks(),
                       .test_error = trainer.validator().test_error(),
                       .loggers = together(earlier, loggers_->troubles())};
    for (const auto& trouble : summary.loggers) summary.end.stop_reason += "; " + trouble.text();
    summarize(summary, "; the run is saved; `ddprun resume` finishes it");
    loggers_->finish(summary.end);
    auto at_last = together(earlier, loggers_->troubles());
    if (std::exchange(summary.loggers, at_last) == at_last) return;
    std::string missing = "; the run has ended and is saved, but for what its loggers lost";
    for (const auto& trouble : summary.loggers) missing += ": " + trouble.text();
    summarize(summary, missing);
  }

  // what_stands: what a user is to know if the summary cannot be written.
  void summarize(const RunSummary& summary, const std::string& what_stands) const {
    try {
      write_summary(runtime_.place.attempt.run_dir, summary);
    } catch (const UserError& error) {
      throw UserError(error.what() + what_stands);
    }
  }

  std::string best_checkpoint(const RunEnd& end) const {
    const auto path = checkpoints_folder(runtime_.place.attempt.run_dir) / checkpoint_name(end.best_step);
    return !end.best.empty() && std::filesystem::exists(path) ? path.string() : "";
  }

  // Waits for the others: the connections of a rank that ends early break, and Gloo's thread in one that still writes
  // the summary may end that process for it.
  void leave_together() {
    const auto& place = runtime_.place;
    ErrorExchange(runtime_.open_store("leaving"), place.rank, place.attempt.world_size,
                  runtime_.experiment.launch.timeout_seconds)
        .agree("");
  }

  StopRequested stop_requested_;
  TimeSince since_command_;
  std::optional<Checkpoint> resumed_;  // until it is restored
  WeightDigests first_weights_;        // rank 0's, where checkpoints leave weights out
  HeartbeatWriter heartbeat_;
  ReachPoint fault_;
  Runtime runtime_;
  std::shared_ptr<Optimizer> optimizer_;
  std::unique_ptr<WatchedObjective> objective_, evaluation_objective_;
  std::unique_ptr<LoggerHub> loggers_;
  std::unique_ptr<BackgroundSaver> checkpoints_;
  std::optional<FlightRecordWriter> flight_record_;
  std::vector<RankPlace> ranks_;
  std::vector<LayerSummary> layers_;  // on rank 0
  const char* phase_ = "starting";
  long step_ = -1;
  double first_step_seconds_ = 0;
};

}  // namespace

std::unique_ptr<WorkerTask> make_train_task(const WorkerPlace& place, StopRequested stop_requested) {
  return std::make_unique<TrainTask>(place, std::move(stop_requested));
}

}  // namespace ddprun
