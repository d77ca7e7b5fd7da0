// SPDX-License-Identifier: MIT
#include "config/interval.h"
#include "config/sections.h"

namespace ddprun {
namespace {

Limit read_limit(Options& options, std::string_view name, std::string_view help) {
  const auto text = options.get<std::string>(name, "all", help);
  const auto limit = parse_limit(text);
  if (!limit) options.reject(name, "expected all, a number of batches or a share such as 0.1, found \"" + text + "\"");
  return limit.value_or(Limit{});
}

void read_sampling(Options& options, TrainerConfig& trainer) {
  const auto value = options.subtree("sampling",
                                     "which samples an epoch draws: {balance: class}, each class equally often, or "
                                     "{weights: FILE}, by a weight for each; by default each sample once",
                                     "map of string");
  if (!options.has("sampling")) return;
  const auto refuse = [&] {
    options.reject("sampling", "expected {balance: class} or {weights: FILE}, found " + describe(value));
  };
  if (!value.is_map() || value.entries().size() != 1 || !value.entries().front().value.is_scalar()) return refuse();
  const auto& [key, origin, chosen] = value.entries().front();
  auto& sampling = trainer.sampling;
  sampling.place = (value.origin().text().empty() ? "" : value.origin().text() + ": ") + options.path() + ".sampling: ";
  if (key == "balance" && chosen.text() == "class") {
    sampling.balance_classes = true;
  } else if (key == "weights" && !chosen.text().empty()) {
    sampling.weights = chosen.text();
  } else if (key == "balance") {
    options.reject("sampling", "balance: expected class, found " + describe(chosen));
  } else {
    refuse();
  }
  if (!trainer.shuffle) options.reject("sampling", "cannot be combined with shuffle: false; choose one");
  if (trainer.overfit_batches > 0) options.reject("sampling", "cannot be combined with overfit_batches; choose one");
}

void read_length(Options& options, TrainerConfig& trainer) {
  trainer.max_epochs =
      options.get<int64_t>("max_epochs", trainer.max_epochs, "passes over the training data", {1, kMost});
  trainer.max_steps =
      options.get<int64_t>("max_steps", trainer.max_steps, "optimizer steps; 0: no limit but max_epochs", {0, kMost});
  trainer.train_batches = read_limit(options, "limit_train_batches", "batches per epoch, or a share such as 0.1");
  trainer.val_batches = read_limit(options, "limit_val_batches", "batches per evaluation, or a share");
  trainer.test_batches = read_limit(options, "limit_test_batches", "batches of the test at the end, or a share");
  trainer.overfit_batches = options.get<int64_t>(
      "overfit_batches", 0, "train and evaluate on only this many batches, unshuffled; 0: on all", {0, kMost});
  trainer.fast_dev_run =
      options.get<bool>("fast_dev_run", false, "a quick check: one step, one evaluation batch, one checkpoint");
  trainer.shuffle = options.get<bool>("shuffle", trainer.shuffle, "a new order of the samples in every epoch");
  read_sampling(options, trainer);
}

// Reads "all", "auto" or a number.
int64_t read_micro_batch(Options& options) {
  const auto text = options.get<std::string>(
      "micro_batch", "all",
      "samples per worker and forward pass; auto: as many as fit into memory; all: its whole share");
  if (text == "all") return 0;
  if (text == "auto") return TrainerConfig::kAutoMicroBatch;
  const auto limit = parse_limit(text);
  if (limit && limit->batches > 0) return limit->batches;
  options.reject("micro_batch", "expected all, auto or a number of samples, found \"" + text + "\"");
  return 0;
}

RecomputeConfig read_recompute(Options& options, const TrainerConfig& trainer) {
  auto blocks =
      read_patterns(options, "recompute",
                    "blocks of the model that backward computes again, in place of keeping what it needs of "
                    "them: all, or by names: \"layer1.*\"; auto: all, if micro_batch: auto finds little that fits; off",
                    "string | list of string");
  const auto is = [&](std::string_view word) { return blocks.patterns == std::vector<std::string>{std::string(word)}; };
  if (is("off")) return {};
  if (is("all")) blocks.patterns = {"*"};
  if (!is("auto")) return {.blocks = std::move(blocks)};
  if (trainer.micro_batch != TrainerConfig::kAutoMicroBatch)
    options.reject("recompute", "auto decides by what micro_batch: auto finds; set that, too, or recompute: all");
  return {.is_auto = true};
}

void read_batches(Options& options, TrainerConfig& trainer) {
  trainer.global_batch = options.get<int64_t>("global_batch", trainer.global_batch,
                                              "samples per optimizer step, all workers together", {1, kMost});
  trainer.batch_per_worker =
      options.get<int64_t>("batch_per_worker", 0,
                           "samples per worker, instead of global_batch; a resumed run keeps the product", {0, kMost});
  trainer.micro_batch = read_micro_batch(options);
  trainer.recompute = read_recompute(options, trainer);
  trainer.shards = options.get<int64_t>(
      "shards", 0,
      "compute the global batch in this many parts, each alone: the same bits on 1 to so many workers; 0: off",
      {0, TrainerConfig::kMostShards});
  trainer.eval_batch =
      options.get<int64_t>("eval_batch", trainer.eval_batch,
                           "samples per evaluation batch of one worker; 0: the global batch, at most 256", {0, kMost});
  trainer.eval_every =
      read_interval(options, "eval_every", "1ep", "never", false, "1ep, 200st, or never, for only at the end");
  trainer.sanity_batches =
      options.get<int64_t>("sanity_batches", trainer.sanity_batches,
                           "evaluation batches before training, to find mistakes early", {0, kMost});
  trainer.log_every =
      options.get<int64_t>("log_every", trainer.log_every, "steps between rows of training metrics", {1, kMost});
  trainer.prefetch_threads = options.get<int64_t>("prefetch_threads", trainer.prefetch_threads,
                                                  "threads that read data ahead, per worker; 0: none", {0, 256});
  trainer.prefetch_batches =
      options.get<int64_t>("prefetch_batches", trainer.prefetch_batches, "most batches to hold ready", {1, 1024});
}

void read_numbers(Options& options, TrainerConfig& trainer) {
  trainer.precision = choose(options, "precision", trainer.precision,
                             "number format of forward and backward; bf16 and fp16 use autocast, bf16_pure and "
                             "bf16_master have weights in bfloat16, the latter with float32 copies");
  trainer.loss_scale = options.get<double>("loss_scale", trainer.loss_scale,
                                           "initial loss scale with fp16; it adapts itself", {1, 1e30});
  trainer.memory_format = choose(options, "memory_format", trainer.memory_format,
                                 "memory format of images and filters; auto: as suits the device and precision");
  trainer.fused_layers = options.get<bool>(
      "fused_layers", trainer.fused_layers,
      "BatchNorm with ReLU or pooling, and dropout, in one pass where it pays, cross-entropy of many classes in parts; "
      "false: use LibTorch's operations");
  trainer.cuda_graph = choose(options, "cuda_graph", trainer.cuda_graph,
                              "capture a GPU's steps once and replay them; auto: if they can be captured");
  trainer.clip_norm =
      options.get<double>("clip_norm", 0, "largest norm of all gradients together; 0: no limit", {0, kLargest});
  trainer.clip_value =
      options.get<double>("clip_value", 0, "largest magnitude of a gradient; 0: no limit", {0, kLargest});
  if (trainer.clip_norm > 0 && trainer.clip_value > 0)
    options.reject("clip_value", "cannot be combined with clip_norm; choose one");
  trainer.ema_decay = options.get<double>(
      "ema_decay", 0, "evaluate and export an EMA of the weights with this decay; 0: the weights", {0, 1});
  if (trainer.ema_decay == 1) options.reject("ema_decay", "expected less than 1: at 1 the average never moves");
  trainer.mixup = options.get<double>(
      "mixup", 0, "mix samples and classes in pairs, with shares of Beta(mixup, mixup), such as 0.2; 0: not", {0, 100});
  trainer.cutmix = options.get<double>(
      "cutmix", 0, "fill a rectangle of images from others, of an area by Beta(cutmix, cutmix), such as 1; 0: not",
      {0, 100});
  trainer.sync_batchnorm =
      options.get<bool>("sync_batchnorm", false, "BatchNorm over the global batch, not each worker's");
}

// Refuses options that work between processes, which have no meaning with strategy dp.
void refuse_with_dp(Options& options, const TrainerConfig& trainer) {
  const auto refuse = [&](std::string_view name, bool chosen) {
    if (chosen) options.reject(name, "cannot be combined with strategy dp, which is one process; choose strategy: ddp");
  };
  refuse("sync_batchnorm", trainer.sync_batchnorm);
  refuse("find_unused_parameters", trainer.find_unused_parameters);
  refuse("static_graph", trainer.static_graph);
  refuse("gradient_compression", trainer.gradient_compression != GradientCompression::kNone);
  refuse("broadcast_buffers", trainer.broadcast_buffers != BroadcastBuffers::kNeeded);
  refuse("shard_optimizer", trainer.shard_optimizer);
}

// Refuses options whose results depend on how many workers there are, or that cut the batch otherwise.
void refuse_with_shards(Options& options, const TrainerConfig& trainer) {
  const auto refuse = [&](std::string_view name, bool chosen, const std::string& why) {
    if (chosen) options.reject(name, "cannot be combined with shards: " + why);
  };
  refuse("strategy", trainer.strategy == Strategy::kDp, "dp cuts each batch by GPUs; choose strategy: ddp");
  refuse("sync_batchnorm", trainer.sync_batchnorm,
         "each is computed alone, with statistics of its own; set it to false");
  refuse("micro_batch", trainer.micro_batch != 0,
         "each worker computes them one after the other already; more shards take less memory");
  refuse("gradient_compression", trainer.gradient_compression != GradientCompression::kNone,
         "it would round sums that depend on the number of workers; set it to none");
  refuse("static_graph", trainer.static_graph, "it expects each parameter's gradient once in a step; set it to false");
  refuse("batch_per_worker", trainer.batch_per_worker > 0,
         "the global batch would depend on the number of workers; set global_batch");
  refuse("deterministic", options.has("deterministic") && !trainer.deterministic,
         "they need deterministic kernels; remove the key");
  if (trainer.batch_per_worker == 0 && trainer.shards > trainer.global_batch)
    options.reject("shards", std::to_string(trainer.shards) + " shards of a batch of " +
                                 std::to_string(trainer.global_batch) + " samples (global_batch): each needs one");
}

void read_distribution(Options& options, TrainerConfig& trainer) {
  trainer.strategy = choose(options, "strategy", trainer.strategy,
                            "ddp: one process per GPU; dp: one process over all its GPUs, like Python's DataParallel");
  trainer.find_unused_parameters =
      options.get<bool>("find_unused_parameters", false, "the loss may skip parameters, different ones in every step");
  trainer.static_graph =
      options.get<bool>("static_graph", false, "every step uses the same parameters in the same order");
  if (trainer.find_unused_parameters && trainer.static_graph)
    options.reject("static_graph", "cannot be combined with find_unused_parameters; choose one");
  trainer.broadcast_buffers =
      choose(options, "broadcast_buffers", trainer.broadcast_buffers,
             "when rank 0's buffers go to all; needed: BatchNorm's running statistics only before evaluations");
  trainer.gradient_compression = choose(options, "gradient_compression", trainer.gradient_compression,
                                        "number format in which gradients are exchanged");
  trainer.shard_optimizer =
      options.get<bool>("shard_optimizer", false,
                        "each worker keeps the optimizer's state and the averages of its share of the parameters "
                        "(ZeRO stage 1); the results are the same");
  if (trainer.strategy == Strategy::kDp) refuse_with_dp(options, trainer);
}

}  // namespace

TrainerConfig read_trainer(Options& options) {
  TrainerConfig trainer;
  read_length(options, trainer);
  read_batches(options, trainer);
  read_numbers(options, trainer);
  read_distribution(options, trainer);
  trainer.deterministic = options.get<bool>("deterministic", trainer.deterministic,
                                            "bitwise the same results for the same seed and world size");
  trainer.on_nonfinite =
      choose(options, "on_nonfinite", trainer.on_nonfinite,
             "if loss or gradients are NaN or infinite: stop with an error; skip the step, at most " +
                 std::to_string(TrainerConfig::kMostSkips) +
                 " in a row; rollback to the last checkpoint and skip the batch, at most " +
                 std::to_string(TrainerConfig::kMostRollbacks) + " times to the same one");
  if (trainer.shards > 0) refuse_with_shards(options, trainer);
  if (trainer.shards > 0) trainer.deterministic = true;
  return trainer;
}

}  // namespace ddprun
