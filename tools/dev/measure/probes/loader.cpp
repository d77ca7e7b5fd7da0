// SPDX-License-Identifier: MIT
// loader_probe CONFIGS BATCHES EXPERIMENT [OVERRIDE...]: pulls the experiment's training batches as fast as they come,
// without a model. CONFIGS is where experiments lie. Prints its figures as one line of JSON.
#include "data/loader.h"

#include "config/compose.h"
#include "config/experiment_reader.h"
#include "plugin_host/plugin_host.h"

#include <ATen/Parallel.h>
#include <nlohmann/json.hpp>

#include <malloc.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace ddprun;

constexpr int64_t kWarmUp = 20;  // batches

std::shared_ptr<const ImageBatcher> images_of(const Dataset& dataset, Resident resident) {
  const auto source = dataset.images(Split::kTrain);
  return source.store && resident != Resident::kOff ? make_image_batcher(source, {}) : nullptr;
}

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }  // of all threads

nlohmann::json pull(TrainLoader& source, int64_t batches) {
  using Clock = std::chrono::steady_clock;
  for (int64_t i = 0; i < kWarmUp; ++i) source.next();
  int64_t images = 0;
  const auto start = Clock::now();
  const double cpu_start = cpu_seconds();
  for (int64_t i = 0; i < batches; ++i) images += source.next().batch.size();
  const std::chrono::duration<double> seconds = Clock::now() - start;
  return {{"images", images}, {"seconds", seconds.count()}, {"cpu_seconds", cpu_seconds() - cpu_start}};
}

nlohmann::json probe(const std::vector<std::string>& words) {
  if (words.size() < 3) throw std::runtime_error("usage: loader_probe CONFIGS BATCHES EXPERIMENT [OVERRIDE...]");
  at::set_num_threads(1);
  mallopt(M_MMAP_THRESHOLD, 1 << 30);  // as in a worker
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 64 << 20);
  const auto experiment = load_experiment(
      {.experiment = words[2], .overrides = {words.begin() + 3, words.end()}, .search_path = {words[0]}});
  const PluginHost plugins(plugin_search_path(experiment.plugin_path));
  const auto dataset = plugins.make_dataset(experiment.dataset);
  dataset->start();
  TrainLoader source(dataset, experiment.trainer, experiment.seed, {}, at::kCPU, 0,
                     images_of(*dataset, experiment.resident));
  return pull(source, std::stol(words[1]));
}

}  // namespace

int main(int argc, char** argv) try {
  std::puts(probe({argv + 1, argv + argc}).dump().c_str());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "loader_probe: %s\n", error.what());
  return 1;
}
