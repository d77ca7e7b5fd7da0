// SPDX-License-Identifier: MIT
#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_writer.h"
#include "data/sample_order.h"
#include "metrics/metric_sums.h"
#include "probes.h"
#include "process_cost.h"
#include "train/agreement.h"
#include "weights/state_guard.h"

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include <unistd.h>

#include <filesystem>
#include <stdexcept>

namespace ddprun::scaling {
namespace {

namespace fs = std::filesystem;

class Done final : public c10d::Work {
 public:
  bool wait(std::chrono::milliseconds) override { return true; }
};

// Counts what this rank hands into sums; nobody else is there. (c10d's own FakeProcessGroup.hpp wants Python's
// headers.)
class CountingBackend final : public c10d::Backend {
 public:
  using Backend::Backend;

  const std::string getBackendName() const override { return "counting"; }

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions&) override {
    for (const auto& tensor : tensors) bytes += static_cast<int64_t>(tensor.nbytes());
    ++sums;
    return c10::make_intrusive<Done>();
  }

  int64_t bytes = 0, sums = 0;
};

// Every step of an epoch, every rank: no sample twice and none left out.
nlohmann::json probe_samples(int64_t ranks, int64_t samples) {
  const int64_t rss_before = status_number("VmRSS");
  const Stopwatch ordering;
  const auto order = epoch_order(42, 0, samples);
  nlohmann::json figures{{"order_seconds", ordering.seconds()}, {"order_bytes", status_number("VmRSS") - rss_before}};
  const StepPlan plan(samples, 4 * ranks);
  std::vector<bool> seen(static_cast<size_t>(samples));
  int64_t count = 0;
  const Stopwatch slicing;
  for (int64_t step = 0; step < plan.steps_per_epoch(); ++step) {
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const auto slice = plan.rank_slice(plan.global_slice(step), rank, ranks);
      for (auto at = slice.begin; at < slice.end; ++at) {
        if (seen.at(static_cast<size_t>(order.at(static_cast<size_t>(at)))))
          throw std::logic_error("a sample came twice");
        seen[static_cast<size_t>(order[static_cast<size_t>(at)])] = true;
        ++count;
      }
    }
  }
  if (count != samples) throw std::logic_error("samples are missing");
  figures["slice_seconds"] = slicing.seconds() / static_cast<double>(plan.steps_per_epoch() * ranks);
  return figures;
}

nlohmann::json probe_metrics(int64_t ranks) {
  const auto backend = c10::make_intrusive<CountingBackend>(0, static_cast<int>(ranks));
  auto group = c10::make_intrusive<c10d::ProcessGroup>(0, static_cast<int>(ranks));
  group->setBackend(at::kCPU, c10d::ProcessGroup::BackendType::CUSTOM, backend);
  group->setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
  Communicator communicator({0, ranks, 0, ranks}, group);
  nlohmann::json figures;
  const auto count = [&](const std::string& what, const std::function<void()>& call) {
    backend->bytes = backend->sums = 0;
    const Stopwatch watch;
    call();
    figures[what] = {{"bytes", backend->bytes}, {"sums", backend->sums}, {"seconds", watch.seconds()}};
  };
  MetricSums sums;
  Step step;
  step.loss = at::ones({});
  step.metrics = {{.name = "accuracy", .sum = at::ones({}), .count = 4}};
  sums.add(step, 4);
  sums.add_number("grad_norm", at::ones({}));
  count("row", [&] { sums.totals(communicator); });
  Agreement agreement(communicator);
  count("step", [&] { agreement.exchange({}); });
  count("text_of_200_bytes", [&] { communicator.gather_texts(std::string(200, 'x')); });
  return figures;
}

// Rank 0's part of a save: the others wait for it.
nlohmann::json probe_checkpoint(int64_t ranks) {
  const auto run = fs::temp_directory_path() / ("ddprun-scaling-" + std::to_string(::getpid()));
  fs::create_directories(run);
  const Checkpoint checkpoint{.step = 100,
                              .model = {{"weight", at::zeros({1000})}},
                              .optimizer = {{"weight/momentum", at::zeros({1000})}},
                              .progress = "{}",
                              .ranks = std::vector<TensorDict>(static_cast<size_t>(ranks), rng_state(nullptr))};
  nlohmann::json figures;
  const auto agree = [](const std::string& error) {
    if (!error.empty()) throw std::runtime_error(error);
    return error;
  };
  CheckpointWriter writer(run, 1, {0, ranks, agree});
  const Stopwatch saving;
  const auto path = writer.save(checkpoint, false);
  figures["leader_seconds"] = saving.seconds();
  figures["rank_file_bytes"] = fs::file_size(path / rank_file(ranks - 1));
  figures["manifest_bytes"] = fs::file_size(path / kManifestFile);
  const Stopwatch verifying;
  const auto info = verify_checkpoint(path);
  figures["verify_seconds"] = verifying.seconds();
  const Stopwatch reading;
  read_checkpoint(info);
  figures["read_seconds"] = reading.seconds();
  fs::remove_all(run);
  return figures;
}

}  // namespace

nlohmann::json probe_world(int64_t ranks, int64_t samples) {
  return {{"samples", probe_samples(ranks, samples)},
          {"metrics", probe_metrics(ranks)},
          {"checkpoint", probe_checkpoint(ranks)}};
}

}  // namespace ddprun::scaling
