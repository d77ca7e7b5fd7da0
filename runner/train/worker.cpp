// SPDX-License-Identifier: MIT
#include "train/worker.h"

#include "checkpoint/checkpoint.h"
#include "config/compose.h"
#include "config/experiment.h"
#include "dist/replicate.h"
#include "launch/worker_process.h"
#include "log/log.h"
#include "plugin_host/plugin_host.h"
#include "train/fault.h"
#include "train/model_weights.h"
#include "train/objective.h"
#include "train/rng_state.h"
#include "train/summary.h"
#include "train/trainer.h"

#include <ddprun/error.h>

#include <ATen/Context.h>

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>
#include <csignal>
#include <cstdlib>

namespace ddprun {
namespace {

volatile std::sig_atomic_t stop_signal = 0;

void note_stop(int signal) { stop_signal = signal; }

// SIGTERM asks for an orderly end; the launcher sends it for Ctrl-C too, so the terminal's own SIGINT is left to it. A reader of
// our output that goes away (`| head`) does not end the training.
void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = note_stop;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGUSR1, &action, nullptr);
  std::signal(SIGINT, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
}

// glibc gives blocks of more than 32 MB back to the kernel at every free, and a training step frees all its activations: the
// page faults of taking them anew cost up to half of the step. The process keeps what it has once used instead.
// DDPRUN_ALLOCATOR=default leaves glibc's settings as they are, to see what this is worth (docs/benchmarks.md).
void keep_freed_memory() {
  const char* allocator = std::getenv("DDPRUN_ALLOCATOR");
  if (allocator && std::string(allocator) == "default") return;
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 64 << 20);
}

// Deterministic kernels only, or an error from those that have none; otherwise cuDNN picks the fastest by trying.
void set_determinism(bool deterministic) {
  auto& context = at::globalContext();
  context.setDeterministicAlgorithms(deterministic, /*warn_only=*/false);
  context.setDeterministicCuDNN(deterministic);
  context.setBenchmarkCuDNN(!deterministic);
  if (deterministic) setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
}

int64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

World world_of(const WorkerPlace& place) {
  return {place.rank, place.world_size, place.local_rank, place.local_world_size};
}

Experiment frozen_experiment(const std::filesystem::path& run_dir) {
  std::vector<std::string> problems;
  auto experiment = read_experiment(load_yaml(run_dir / "config.yaml"), problems);
  if (!problems.empty()) throw UserError((run_dir / "config.yaml").string() + " was changed: " + problems.front());
  return experiment;
}

// Everything of one worker, made in this order and destroyed in the reverse.
class Worker {
 public:
  explicit Worker(WorkerPlace place)
      : place_(std::move(place)),
        experiment_(frozen_experiment(place_.run_dir)),
        plugins_(plugin_search_path(experiment_.plugin_path)),
        backend_(uses_gpu() ? load_cuda_backend(place_.local_rank) : nullptr),
        device_(backend_ ? backend_->device() : c10::Device(c10::kCPU)),
        communicator_(communicator_options()) {}

  int run() {
    prepare();
    auto trainer = make_trainer();
    checkpoints_->set_save_observer(fault_from_environment(place_.rank, [&trainer] { return trainer.state().step; }));
    announce(trainer);
    try {
      const auto end = trainer.run();
      finish(trainer, end);
      return end.status == "preempted" ? kExitPreempted : kExitDone;
    } catch (...) {
      phase_ = trainer.phase();
      step_ = trainer.state().step;
      throw;
    }
  }

  const char* phase() const { return phase_; }
  long step() const { return step_; }

 private:
  static bool uses_gpu() {
    const char* device = std::getenv("DDPRUN_DEVICE");
    return device && std::string(device) == "cuda";
  }

  CommunicatorOptions communicator_options() {
    CommunicatorOptions options{
        .world = world_of(place_), .backend = backend_, .timeout_seconds = experiment_.launch.timeout_seconds};
    if (place_.world_size > 1) options.store = file_store(place_.store.string(), place_.world_size);
    return options;
  }

  // Model, data, optimizer, equal on all ranks.
  void prepare() {
    set_determinism(experiment_.trainer.deterministic);
    set_product_precision(experiment_.trainer);
    dataset_ = plugins_.make_dataset(experiment_.dataset);
    dataset_->start();
    if (dataset_->size(Split::kTrain) == 0) throw UserError("dataset: it has no training samples");
    seed_generators(experiment_.seed, 0, backend_.get());
    model_ = plugins_.make_model(experiment_.model);
    model_->prepare(dataset_->spec());
    if (!experiment_.trainer.init_weights.empty()) load_initial_weights(*model_, experiment_.trainer.init_weights);
    model_->to(device_);
    precision_ = Precision(experiment_.trainer, device_.type());
    precision_.convert(*model_);
    verify_same_model(*model_, communicator_);
    broadcast_state(*model_, communicator_);
    optimizer_ = plugins_.make_optimizer(experiment_.optimizer);
    const auto parameters = trainable_parameters(*model_);
    if (parameters.empty()) throw UserError("model: it registers no trainable parameters");
    optimizer_->start(parameters);
    seed_generators(experiment_.seed, place_.rank, backend_.get());
    objective_ = objective(Phase::kTraining);
    evaluation_objective_ = objective(Phase::kEvaluation);
    loggers_ = std::make_unique<LoggerHub>(make_loggers());
    checkpoints_ = std::make_unique<CheckpointWriter>(
        place_.run_dir, experiment_.checkpoint.keep,
        CheckpointWriter::Ranks{place_.rank, place_.world_size,
                                [this](const std::string& error) { return agree(error); }});
  }

  std::unique_ptr<Objective> objective(Phase phase) const {
    Options options(experiment_.objective_options, "objective");
    return make_objective(experiment_.objective, options, phase);
  }

  std::vector<LoggerHub::Entry> make_loggers() {
    std::vector<LoggerHub::Entry> loggers;
    if (place_.rank != 0) return loggers;
    for (const auto& choice : experiment_.loggers) loggers.push_back({choice.plugin, plugins_.make_logger(choice)});
    return loggers;
  }

  std::string agree(const std::string& error) {
    for (const auto& text : communicator_.gather_texts(error)) {
      if (!text.empty()) return text;
    }
    return "";
  }

  Trainer make_trainer() {
    return Trainer(experiment_,
                   {.communicator = communicator_,
                    .model = model_,
                    .dataset = dataset_,
                    .optimizer = optimizer_,
                    .objective = *objective_,
                    .evaluation_objective = *evaluation_objective_,
                    .loggers = *loggers_,
                    .checkpoints = *checkpoints_,
                    .precision = precision_,
                    .backend = backend_,
                    .device = device_},
                   [] { return stop_signal != 0; });
  }

  // Goes on from DDPRUN_RESUME, a checkpoint that the launcher has verified, and tells the loggers that the run begins.
  void announce(Trainer& trainer) {
    const char* resume = std::getenv("DDPRUN_RESUME");
    if (resume && *resume) {
      const auto info = read_checkpoint_info(resume);
      trainer.restore(read_checkpoint(info, place_.rank), resume);
      broadcast_state(*model_, communicator_);
    }
    int64_t parameters = 0;
    for (const auto& parameter : trainable_parameters(*model_)) parameters += parameter.value.numel();
    loggers_->start({.name = experiment_.name,
                     .run_dir = place_.run_dir,
                     .config_yaml = to_yaml(experiment_.config, false),
                     .attempt = place_.attempt,
                     .resumed_step = trainer.state().step,
                     .world_size = place_.world_size,
                     .nodes = place_.world_size / place_.local_world_size,
                     .global_batch = experiment_.trainer.global_batch,
                     .steps_per_epoch = trainer.steps_per_epoch(),
                     .max_epochs = experiment_.trainer.max_epochs,
                     .max_steps = trainer.max_steps(),
                     .parameters = parameters,
                     .model = experiment_.model.plugin,
                     .dataset = experiment_.dataset.plugin,
                     .optimizer = experiment_.optimizer.plugin,
                     .device = backend_ ? backend_->description() : "cpu"});
    if (place_.rank == 0 && dataset_->size(Split::kVal) == 0) tell_of_missing_validation();
  }

  void tell_of_missing_validation() const {
    if (dataset_->size(Split::kTest) > 0) {
      log::info("the dataset has no validation split: val/ metrics are computed on its test split");
    } else if (experiment_.early_stopping) {
      log::warn(
          "early_stopping: the dataset has neither a validation nor a test split, so nothing can stop the run early");
    }
  }

  void finish(const Trainer& trainer, RunEnd end) {
    if (place_.rank != 0) return;
    end.total_seconds = wall_seconds() - place_.started_at;
    const double first_step = trainer.first_step_at();
    write_summary(place_.run_dir, {.end = end,
                                   .first_step_seconds = first_step > 0 ? first_step - place_.started_at : 0,
                                   .data_seconds = trainer.phases().data,
                                   .compute_seconds = trainer.phases().compute,
                                   .step_seconds = trainer.phases().total,
                                   .peak_rss_bytes = peak_rss_bytes(),
                                   .attempt = place_.attempt});
    loggers_->finish(end);
  }

  WorkerPlace place_;
  Experiment experiment_;
  PluginHost plugins_;
  std::shared_ptr<DeviceBackend> backend_;
  c10::Device device_;
  Communicator communicator_;
  std::shared_ptr<Dataset> dataset_;
  std::shared_ptr<Model> model_;
  Precision precision_;
  std::shared_ptr<Optimizer> optimizer_;
  std::unique_ptr<Objective> objective_, evaluation_objective_;
  std::unique_ptr<LoggerHub> loggers_;
  std::unique_ptr<CheckpointWriter> checkpoints_;
  const char* phase_ = "starting";
  long step_ = -1;
};

int report(const WorkerPlace& place, const Worker* worker, const char* kind, const std::string& message, int code) {
  write_failure(place.run_dir, {.rank = place.rank,
                                .time = wall_seconds(),
                                .kind = kind,
                                .message = message,
                                .phase = worker ? worker->phase() : "starting",
                                .step = worker ? worker->step() : -1});
  log::error(message);
  return code;
}

int run_reporting(const WorkerPlace& place) {
  std::unique_ptr<Worker> worker;
  try {
    worker = std::make_unique<Worker>(place);
    return worker->run();
  } catch (const UserError& error) {
    return report(place, worker.get(), "user", error.what(), worker && worker->step() >= 0 ? kExitFailed : kExitUsage);
  } catch (const CommunicationError& error) {
    return report(place, worker.get(), "communication", error.what(), kExitFailed);
  } catch (const std::exception& error) {
    return report(place, worker.get(), "internal", error.what(), kExitFailed);
  }
}

}  // namespace

int run_worker() {
  keep_freed_memory();
  install_signal_handlers();
  const auto place = read_worker_place();
  log::set_prefix("rank " + std::to_string(place.rank));
  const int code = run_reporting(place);
  // No destructors from here on: a logger that hangs, or a collective that a dead rank left open, must not hold up the end.
  std::fflush(nullptr);
  _exit(code);
}

}  // namespace ddprun
