// SPDX-License-Identifier: MIT
// One experiment, as experiment_reader.h reads it from its composed YAML: every other part of the runner takes its
// settings from it. It depends on neither LibTorch nor yaml-cpp, so that the launcher and the tests of the
// configuration stay cheap to build.
#pragma once

#include "base/words.h"

#include <ddprun/value.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <typeindex>
#include <utility>
#include <vector>

namespace ddprun {

// A plugin that the experiment names, with the options for its constructor.
struct PluginChoice {
  std::string plugin;  // a name on the search path, or the path of a .so
  Value options;       // a map without the key `plugin`, of the objective `name`
  std::string path;    // "model", "loggers[1]", "callbacks[0]", as in error texts
  Origin origin;       // the place of the name
};

// An interval or a length: at most one of the three is set.
struct Interval {
  int64_t epochs = 0;
  int64_t steps = 0;
  double seconds = 0;

  bool none() const { return epochs == 0 && steps == 0 && seconds == 0; }
};

// A number of batches, or a share of them; all if neither is set.
struct Limit {
  int64_t batches = 0;
  double share = 0;

  bool none() const { return batches == 0 && share == 0; }
  bool operator==(const Limit&) const = default;
  int64_t of(int64_t all) const;  // at least 1, at most all
};

// The choices of some options; docs/training.md explains each.
enum class PrecisionMode { kFp32, kFp32Exact, kTf32, kBf16, kFp16, kBf16Pure, kBf16Master };
constexpr bool has_bf16_weights(PrecisionMode precision) {
  return precision == PrecisionMode::kBf16Pure || precision == PrecisionMode::kBf16Master;
}
enum class Strategy { kDdp, kDp };
enum class CudaGraphMode { kAuto, kOn, kOff };
enum class OnNonfinite { kStop, kSkip, kRollback };
enum class MemoryFormat { kAuto, kChannelsFirst, kChannelsLast };
enum class BroadcastBuffers { kNeeded, kEveryStep };
enum class GradientCompression { kNone, kFp16, kBf16 };
// To add a schedule: a value and its word here, its options in schedule_section.cpp, its formula in step/schedule.cpp.
enum class ScheduleKind {
  kConstant,
  kStep,
  kMultistep,
  kExponential,
  kCosine,
  kLinear,
  kOneCycle,
  kPlateau,
  kRangeTest
};
enum class LrScaling { kNone, kLinear, kSqrt };
enum class Backend { kAuto, kNccl, kGloo };
enum class Bind { kAuto, kOff };

template <>
struct WordsOf<PrecisionMode> {
  static constexpr auto kAll =
      std::to_array<std::string_view>({"fp32", "fp32_exact", "tf32", "bf16", "fp16", "bf16_pure", "bf16_master"});
};
template <>
struct WordsOf<Strategy> {
  static constexpr auto kAll = std::to_array<std::string_view>({"ddp", "dp"});
};
template <>
struct WordsOf<CudaGraphMode> {
  static constexpr auto kAll = std::to_array<std::string_view>({"auto", "on", "off"});
};
template <>
struct WordsOf<OnNonfinite> {
  static constexpr auto kAll = std::to_array<std::string_view>({"stop", "skip", "rollback"});
};
template <>
struct WordsOf<MemoryFormat> {
  static constexpr auto kAll = std::to_array<std::string_view>({"auto", "channels_first", "channels_last"});
};
template <>
struct WordsOf<BroadcastBuffers> {
  static constexpr auto kAll = std::to_array<std::string_view>({"needed", "every_step"});
};
template <>
struct WordsOf<GradientCompression> {
  static constexpr auto kAll = std::to_array<std::string_view>({"none", "fp16", "bf16"});
};
template <>
struct WordsOf<ScheduleKind> {
  static constexpr auto kAll = std::to_array<std::string_view>(
      {"constant", "step", "multistep", "exponential", "cosine", "linear", "one_cycle", "plateau", "range_test"});
};
template <>
struct WordsOf<LrScaling> {
  static constexpr auto kAll = std::to_array<std::string_view>({"none", "linear", "sqrt"});
};
template <>
struct WordsOf<Backend> {
  static constexpr auto kAll = std::to_array<std::string_view>({"auto", "nccl", "gloo"});
};
template <>
struct WordsOf<Bind> {
  static constexpr auto kAll = std::to_array<std::string_view>({"auto", "off"});
};

// Where batches of images in memory are made; off: by the dataset.
enum class Resident { kAuto, kHost, kOff };
template <>
struct WordsOf<Resident> {
  static constexpr auto kAll = std::to_array<std::string_view>({"auto", "host", "off"});
};

// Patterns of names as a shell has for those of files, "layer1.*", and for errors the place where they are written:
// "mnist.yaml:7:12: pretrained.freeze: ".
struct NamePatterns {
  std::vector<std::string> patterns;
  std::string place;
};

// Which blocks of the model backward computes again.
struct RecomputeConfig {
  bool is_auto = false;  // all, if little of a batch fits into memory otherwise
  NamePatterns blocks;   // these

  bool is_on() const { return is_auto || !blocks.patterns.empty(); }
};

// Which training samples an epoch draws; by default each once.
struct SamplingConfig {
  bool balance_classes = false;  // each class equally often
  std::string weights;           // a file with a weight for each sample; empty: none
  std::string place;             // "mnist.yaml:7:12: trainer.sampling: "

  bool is_on() const { return balance_classes || !weights.empty(); }
};

struct TrainerConfig {
  int64_t max_epochs = 10;
  int64_t max_steps = 0;         // 0: no limit but max_epochs
  int64_t global_batch = 64;     // samples per optimizer step, all ranks together
  int64_t batch_per_worker = 0;  // samples per worker at the start of the run, instead of global_batch; 0: not set
  int64_t micro_batch = 0;  // most samples of a rank in a micro-batch; 0: its whole share; kAutoMicroBatch: what fits
  int64_t shards = 0;       // parts of the global batch that are computed alone and added in order; 0: one per rank
  RecomputeConfig recompute;
  int64_t eval_batch = 0;  // samples per evaluation batch on one rank; 0: the global batch, at most 256
  Interval eval_every{.epochs = 1};
  int64_t sanity_batches = 1;  // evaluation batches before training, to find mistakes early
  int64_t log_every = 50;      // steps between training rows
  Limit train_batches, val_batches, test_batches;
  int64_t overfit_batches = 0;  // the same first batches in every epoch; 0: off
  bool fast_dev_run = false;
  bool shuffle = true;
  SamplingConfig sampling;
  int64_t prefetch_threads = 1;
  int64_t prefetch_batches = 2;  // batches held ready, at most

  PrecisionMode precision = PrecisionMode::kFp32;
  double loss_scale = 65536;                         // the gradient scaler's initial scale
  MemoryFormat memory_format = MemoryFormat::kAuto;  // memory order of images and their filters
  bool fused_layers = true;                          // the SDK's layers in one pass
  CudaGraphMode cuda_graph = CudaGraphMode::kAuto;   // steps are captured once and replayed by the GPU
  double clip_norm = 0;                              // largest norm of all gradients together; 0: no limit
  double clip_value = 0;                             // largest magnitude of each gradient; 0: no limit
  double ema_decay = 0;                              // decay of the averaged weights; 0: none
  double mixup = 0, cutmix = 0;                      // parameter of the Beta distribution of shares; 0: off
  bool sync_batchnorm = false;                       // statistics of the global batch
  Strategy strategy = Strategy::kDdp;                // ddp: a process for each GPU; dp: one process over all GPUs
  bool find_unused_parameters = false;
  bool static_graph = false;
  BroadcastBuffers broadcast_buffers = BroadcastBuffers::kNeeded;         // when rank 0's buffers go to all
  GradientCompression gradient_compression = GradientCompression::kNone;  // number format of exchanged gradients
  bool shard_optimizer = false;                                           // each rank steps a share of the parameters

  bool deterministic = false;
  OnNonfinite on_nonfinite = OnNonfinite::kStop;  // a loss or gradients that are NaN or infinite

  // Returns the global batch of a run that starts with this many workers (with strategy dp: GPUs).
  int64_t global_batch_of(int64_t workers) const {
    return batch_per_worker > 0 ? batch_per_worker * workers : global_batch;
  }
  bool has_a_sample_for_each(int64_t workers) const { return global_batch_of(workers) >= workers; }

  static constexpr int64_t kAutoMicroBatch = -1;
  static constexpr int64_t kMostShards = 4096;
  static constexpr int64_t kMostSkips = 10;     // in a row
  static constexpr int64_t kMostRollbacks = 3;  // to the same checkpoint
};

// The weights that training starts from, and how fast their layers learn.
struct PretrainedConfig {
  struct Rename {
    std::string pattern, replacement;  // a regular expression, and what takes the place of what it matches
  };

  std::string file;        // .safetensors, the index of several, a checkpoint or a run; empty: drawn from the seed
  std::string file_place;  // "mnist.yaml:7:12: pretrained.file: "
  std::vector<Rename> rename;
  std::string rename_place;
  NamePatterns skip;       // new
  double layer_decay = 1;  // the lr of a layer is that of the one after it times this
};

// How the learning rate changes; runner/step/schedule.h defines each schedule.
struct ScheduleConfig {
  ScheduleKind kind = ScheduleKind::kConstant;
  bool per_epoch = false;                   // changes at the end of epochs, not at every step
  Interval warmup;                          // none: no warm-up
  double warmup_from = 0.01;                // share of the lr at its start
  LrScaling lr_scaling = LrScaling::kNone;  // by global_batch / reference_batch
  int64_t reference_batch = 256;

  Interval every{.epochs = 30};      // step
  double gamma = 0.1;                // step, multistep, exponential
  std::vector<Interval> milestones;  // multistep
  Interval length;                   // cosine, linear, one_cycle; none: to the end of the run
  double end_lr = 0;                 // cosine, linear
  double pct_start = 0.3, div_factor = 25, final_div_factor = 1e4;  // one_cycle
  bool cosine_anneal = true;                                        // one_cycle: along a cosine, else along a line
  std::string monitor = "val/loss";                                 // plateau, and what follows
  bool maximize = false;
  double factor = 0.1, threshold = 1e-4, min_lr = 0;
  int64_t patience = 10, cooldown = 0;
  double from = 1e-7, to = 10;  // range_test: optimizer.lr of the first and the last step
};

struct EarlyStoppingConfig {
  std::string monitor = "val/accuracy";
  bool maximize = true;
  int64_t patience = 3;  // evaluations without an improvement; 0: no limit
  double min_delta = 0;
  std::optional<double> target;
  int64_t hold = 1;  // evaluations in a row at the target
};

enum class Resume { kNever, kAuto, kFrom };

struct CheckpointConfig {
  Interval every{.epochs = 1};  // none: only at the end
  int64_t keep = 3;
  std::string monitor = "val/accuracy";  // the metric that `best` follows
  bool maximize = true;
  bool async = true;            // written while training continues, from a copy in host memory
  bool only_trainable = false;  // without parameters that never train, which a resumed run makes again
  Resume resume = Resume::kNever;
  std::string resume_from;  // the path of a run or checkpoint, with Resume::kFrom
};

// The samples of an evaluation that the loggers get with their predictions; none if there are no batches.
struct PredictionsConfig {
  int64_t batches = 0;
  int64_t images_per_batch = 10;
};

// A range of steps, counted from 1, both ends included.
struct StepRange {
  int64_t first = 0, last = 0;
};

struct LaunchConfig {
  int64_t workers = 0;  // per node; 0: auto, one per GPU (a single one with strategy dp), or one on the CPU
  Device device = Device::kAuto;
  Backend backend = Backend::kAuto;  // how the ranks communicate; auto: NCCL on GPUs, else Gloo
  int64_t threads = 0;               // per worker, for its kernels; 0: auto, cores / workers
  Bind bind = Bind::kAuto;           // auto: a worker stays on the cores next to its GPU
  double timeout_seconds = 1800;     // of a collective
  double hang_seconds = 600;         // a worker that stalls for this long has failed; 0: no limit
  int64_t max_restarts = 0;          // after failures
  double restart_seconds = 1;        // pause before the first of them; doubles with each

  int64_t min_nodes = 1, max_nodes = 1;
  double grace_seconds = 30;         // from the signal that ends a run until workers are killed
  double end_margin_seconds = 60;    // the run saves and ends this long before Slurm's time limit; 0: it does not
  bool requeue = false;              // have Slurm restart the job if a signal ended it
  double join_seconds = 600;         // how long the nodes wait for each other
  double node_timeout_seconds = 30;  // a node that is silent for this long is lost
  std::string address;               // this node's, for the others; empty: by the route to the first
  std::filesystem::path token_file;  // with the secret that all nodes share; empty: DDPRUN_TOKEN, or none

  // Returns the library that several workers communicate with.
  std::string exchange(bool on_gpus) const { return on_gpus && backend != Backend::kGloo ? "nccl" : "gloo"; }
};

// What `ddprun submit` asks Slurm for. A run started in any other way ignores it.
struct ResourcesConfig {
  int64_t nodes = 0;               // 0: launch.nodes
  int64_t gpus = 0;                // per node
  int64_t cpus_per_worker = 0;     // 0: the scheduler's default, here and below
  int64_t cpus_per_node = 0;       // for all workers of a node together
  std::string memory;              // per node, "64G"
  double seconds = 0;              // time limit of the job
  std::vector<std::string> slurm;  // more options of sbatch
  std::vector<std::string> setup;  // lines of bash before srun
  std::string container;           // the image for Apptainer
};

// What features of trainings read of the experiment (feature_section.h), a struct of each.
class FeatureConfigs {
 public:
  // Returns what a feature has read; its defaults where the experiment does not have the section.
  template <class Config>
  const Config& of() const {
    static const Config none;
    const auto found = configs_.find(typeid(Config));
    return found == configs_.end() ? none : *static_cast<const Config*>(found->second.get());
  }

  template <class Config>
  void set(Config config) {
    configs_[typeid(Config)] = std::make_shared<const Config>(std::move(config));
  }

 private:
  std::map<std::type_index, std::shared_ptr<const void>> configs_;
};

inline constexpr std::array kDefaultLoggers{"console", "csv", "jsonl"};

struct Experiment {
  std::string name;
  uint64_t seed = 0;
  PluginChoice model, dataset, optimizer;
  Resident resident = Resident::kAuto;
  std::vector<PluginChoice> loggers, callbacks;
  PluginChoice objective{.plugin = "cross_entropy", .path = "objective"};  // a built-in one, or a plugin
  TrainerConfig trainer;
  PretrainedConfig pretrained;
  ScheduleConfig schedule;
  std::optional<EarlyStoppingConfig> early_stopping;
  CheckpointConfig checkpoint;
  PredictionsConfig predictions;
  LaunchConfig launch;
  ResourcesConfig resources;
  std::filesystem::path run_dir;  // run.dir; empty: outputs/<name>/<time>
  std::vector<std::filesystem::path> plugin_path;
  FeatureConfigs features;
  Value config;  // the whole composed tree, to be frozen

  // Returns whether the run only looks for a learning rate: it ends when the loss diverges, evaluates nothing and saves
  // no checkpoint.
  bool is_range_test() const { return schedule.kind == ScheduleKind::kRangeTest; }
};

}  // namespace ddprun
