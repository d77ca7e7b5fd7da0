// SPDX-License-Identifier: MIT
// The GPU backend on a GPU, with one rank, which NCCL sends nothing for; tools/gpu_check's checks nccl_* have two.
#include "gpu/gpu_test.h"

#include "base/program.h"
#include "data/copy_stream.h"
#include "data/loader.h"
#include "device/device_backend.h"
#include "features/profile/profiler.h"
#include "imaging/image_batcher.h"
#include "imaging/pictures.h"
#include "metrics/packed.h"
#include "step/data_parallel.h"
#include "support/toy.h"
#include "weights/tensor_digest.h"

#include <ddprun/objective.h>

#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/nn/modules/conv.h>
#include <torch/types.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

namespace ddprun {
namespace {

using testing::count_gpus;
using testing::Gpu;
using testing::ToyDataset;

TEST_F(Gpu, BackendBindsTheProcessToItsGpu) {
  EXPECT_EQ(backend_->device(), at::Device("cuda:0"));
  EXPECT_FALSE(backend_->description().empty());
  EXPECT_TRUE(backend_->identity().starts_with("PCI "));
  EXPECT_EQ(at::ones({3}, backend_->device()).sum().item<float>(), 3);
}

TEST_F(Gpu, NcclWithOneRankSumsAndBroadcasts) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto group = backend_->make_group_backend(store, 0, 1, 60);
  backend_->connect(*group);
  std::vector<at::Tensor> values{at::arange(1000, at::TensorOptions(backend_->device()).dtype(at::kFloat))};
  group->allreduce(values)->wait();
  group->broadcast(values)->wait();
  backend_->synchronize();
  EXPECT_TRUE(at::equal(values[0].cpu(), at::arange(1000, at::kFloat)));
}

TEST_F(Gpu, PacksNumbersOfEveryTypeAsTheCpuDoes) {
  std::vector<at::Tensor> numbers;
  for (int i = 0; i < 700; ++i) {  // more than one kernel takes
    const auto number = torch::tensor(i + 0.25, at::kDouble);
    numbers.push_back(number.to(std::array{at::kFloat, at::kDouble, at::kLong, at::kBFloat16}[i % 4]));
  }
  auto there = numbers;
  for (auto& number : there) number = number.to(backend_->device());
  EXPECT_TRUE(at::equal(packed(there).cpu(), packed(numbers)));
}

TEST_F(Gpu, CountsTheCorrectAsTheCpuDoes) {
  for (const auto& [rows, classes] : {std::pair(1, 1), {3, 2}, {256, 10}, {1000, 7}, {300, 1024}, {40, 2000}}) {
    auto scores = at::randint(4, {classes, rows}, at::kFloat).t();  // many are equal, and no row is contiguous
    if (rows > 2) scores.diagonal().masked_fill_(at::rand({std::min(rows, classes)}).lt(0.3), NAN);
    const auto target = at::randint(-1, std::min(classes, 3), {rows}, at::kLong);
    const auto there = count_correct(scores.to(backend_->device()), target.to(backend_->device()));
    EXPECT_EQ(there.scalar_type(), at::kLong);
    EXPECT_EQ(there.item<int64_t>(), count_correct(scores, target).item<int64_t>()) << rows << " x " << classes;
  }
}

TEST_F(Gpu, BatchesArriveOnTheGpuAsTheCpuSeesThem) {
  const auto data = std::make_shared<ToyDataset>(200, 0);
  const TrainerConfig config{.global_batch = 32};
  TrainLoader on_gpu(data, config, 42, {}, backend_->device(), 0), on_cpu(data, config, 42, {}, at::kCPU, 0);
  for (int step = 0; step < 20; ++step) {  // more than are held ready: page-locked memory is used again
    const auto moved = on_gpu.next().batch, plain = on_cpu.next().batch;
    ASSERT_TRUE(moved.input.is_cuda() && moved.target.is_cuda());
    EXPECT_TRUE(at::equal(moved.input.cpu(), plain.input)) << "step " << step;
    EXPECT_TRUE(at::equal(moved.target.cpu(), plain.target)) << "step " << step;
  }
}

TEST_F(Gpu, ImagesThatStayThereMakeTheBitsOfTheCpu) {
  const auto store = random_pictures(300, 3, 11, 9);
  const auto numbers = at::arange(300, at::kLong).flip(0).contiguous();
  for (const auto& form :
       {ImageForm{}, ImageForm{.channels_last = true}, ImageForm{.channels_last = true, .bf16 = true}}) {
    for (const auto& augmentation : augmentations()) {
      const ImageSource source{&store, &augmentation};
      const auto on_gpu = backend_->hold_images(source, form);
      const auto on_cpu = make_image_batcher(source, form);
      for (const int64_t epoch : {0, 1, 7}) {
        const AugmentKey key{.seed = 42, .epoch = epoch};
        const auto there = on_gpu->make(numbers, &key), here = on_cpu->make(numbers, &key);
        ASSERT_TRUE(there.input.is_cuda() && there.target.is_cuda());
        EXPECT_EQ(there.input.strides(), here.input.strides());
        EXPECT_TRUE(at::equal(there.input.cpu(), here.input));
        EXPECT_TRUE(at::equal(there.target.cpu(), here.target));
      }
    }
  }
}

TEST_F(Gpu, ACapturedBatchIsThatOfTheRequestOfEachReplay) {
  const auto store = random_pictures(100, 3, 16, 16);
  const ImageAugmentation augmentation{.crop_padding = 3, .flip = true, .cutout = 5};
  const auto images = backend_->hold_images({&store, &augmentation}, {});
  const AugmentKey first{.seed = 42, .epoch = 0};
  ASSERT_TRUE(images->makes_of_requests(&first));
  const auto request = at::empty({41}, at::TensorOptions(backend_->device()).dtype(at::kLong));
  const auto graph = backend_->capture([&](const auto&) {
    const auto batch = images->make_of(request, &first);
    return std::vector{batch.input, batch.target};
  });
  for (const int64_t epoch : {0, 1, 7}) {
    const AugmentKey key{.seed = 42, .epoch = epoch};
    const auto numbers = at::randperm(100, at::kLong).slice(0, 0, 40).contiguous();
    request.copy_(images->request(numbers, &key), /*non_blocking=*/true);
    graph->replay();
    const auto expected = expected_batch(store, augmentation, numbers, key);
    EXPECT_TRUE(at::equal(graph->results()[0].cpu(), expected.input)) << "epoch " << epoch;
    EXPECT_TRUE(at::equal(graph->results()[1].cpu(), expected.target)) << "epoch " << epoch;
  }
}

TEST_F(Gpu, ABatchIsCopiedBesideTheStepsAndTheNextStepWaitsForIt) {
  CopyStream copies(backend_->device());
  const c10::impl::VirtualGuardImpl streams(at::kCUDA);
  const auto of_steps = streams.getStream(backend_->device());
  for (int64_t i = 0; i < 100; ++i) {  // more than there are streams: they come again
    const auto batch = copies.copied(
        {.input = at::full({1000}, i, at::kFloat).pin_memory(), .target = at::full({10}, i, at::kLong).pin_memory()});
    EXPECT_EQ((batch.input.sum() + batch.target.sum()).item<double>(), static_cast<double>(i * 1010));
    copies = CopyStream(backend_->device());
  }
  EXPECT_EQ(streams.getStream(backend_->device()), of_steps);
}

TEST_F(Gpu, PinnedMemoryIsPageLocked) { EXPECT_TRUE(at::ones({10}).pin_memory().is_pinned()); }

TEST_F(Gpu, GeneratorRepeatsItsNumbersAfterBeingSetBack) {
  auto generator = backend_->generator(backend_->device());
  const auto draw = [&] { return at::randn({100}, generator, at::TensorOptions(backend_->device())).cpu(); };
  generator.set_current_seed(7);
  const auto first = draw();
  const auto state = generator.get_state();
  const auto second = draw();
  generator.set_state(state);
  EXPECT_TRUE(at::equal(draw(), second));
  generator.set_current_seed(7);
  EXPECT_TRUE(at::equal(draw(), first));
}

TEST_F(Gpu, SeveralInOneProcessHaveGeneratorsOfTheirOwn) {
  const auto gpus = count_gpus();
  const auto all = load_cuda_backend(0, gpus);
  ASSERT_EQ(static_cast<int64_t>(all->devices().size()), gpus);
  EXPECT_EQ(all->device(), at::Device("cuda:0"));
  for (const auto device : all->devices()) EXPECT_EQ(all->generator(device).device(), device);
}

TEST_F(Gpu, TimerSaysTheGpusOwnTimes) {
  const auto timer = backend_->make_timer();
  const int64_t side = gpus_are_pretended() ? 512 : 4096;  // a CPU takes half a minute for what a GPU does at once
  const auto values = at::rand({side, side}, at::TensorOptions(backend_->device()));
  auto product = values.mm(values);  // the first brings the library in
  backend_->synchronize();
  timer->mark();
  for (int i = 0; i < 20; ++i) product = values.mm(values);
  timer->mark();
  timer->mark();
  const auto seconds = timer->take();
  ASSERT_EQ(seconds.size(), 2U);
  EXPECT_GT(seconds[0], 10 * seconds[1]);
  timer->mark();
  EXPECT_EQ(timer->take().size(), 1U);  // from the last mark on
}

TEST_F(Gpu, UsageIsTheMostSinceTheLastTime) {
  backend_->usage();
  constexpr int64_t kBytes = 256 << 20;
  at::empty({kBytes}, at::TensorOptions(backend_->device()).dtype(at::kByte));
  EXPECT_GE(backend_->usage().memory_bytes, kBytes);
  EXPECT_LT(backend_->usage().memory_bytes, kBytes);
}

TEST_F(Gpu, AProfileHasTheGpusKernels) {
  if (gpus_are_pretended()) GTEST_SKIP() << "a pretended GPU's kernels are in no profile";
  std::string folder = (std::filesystem::temp_directory_path() / "ddprun_profile_XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  {
    Profiler profile({.steps = {1, 1}, .ranks = 1}, folder, 0, /*gpu=*/true);
    profile.before_batch(1);
    at::rand({64, 64}, at::TensorOptions(backend_->device())).mm(at::ones({64, 64}, backend_->device()));
  }
  std::ostringstream trace;
  trace << std::ifstream(folder + "/profile/rank_0_steps_1_1.json").rdbuf();
  EXPECT_NE(trace.str().find("\"cat\": \"kernel\""), std::string::npos);
  std::filesystem::remove_all(folder);
}

// On all GPUs; where there is one, with two copies on it.
TEST_F(Gpu, CopiesInOneProcessGiveTheGradientsOfOneModel) {
  const auto devices = load_cuda_backend(0, count_gpus())->devices();
  std::vector<DataParallel::Copy> copies;
  for (size_t i = 0; i < std::max<size_t>(2, devices.size()); ++i) {
    copies.push_back({std::make_shared<testing::ToyModel>(), devices[i % devices.size()]});
    copies.back().model->prepare({.sample_shape = {8}, .classes = 3});
    copies.back().model->to(copies.back().device);
  }
  TrainLoader source(std::make_shared<ToyDataset>(203, 0), {.global_batch = 101}, 42, {}, devices.front(), 0);
  const auto batch = source.next().batch;
  const testing::MeanCrossEntropy objective;
  auto& model = *copies.front().model;
  model.step(batch, objective).loss.backward();
  std::vector<at::Tensor> expected;
  for (const auto& parameter : model.parameters()) expected.push_back(parameter.grad().clone());
  model.zero_grad();

  DataParallel parallel(copies);
  parallel.refresh();
  const auto step = parallel.step(batch, objective);
  EXPECT_EQ(step.loss.device(), devices.front());
  EXPECT_EQ(step.metrics.front().count, 101);
  step.loss.backward();
  parallel.collect_gradients();
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LT((model.parameters()[i].grad() - expected[i]).abs().max().item<double>(), 1e-5);
  }
}

// Keeps the threads that have computed it.
class Filtering : public testing::ToyModel {
 public:
  void prepare(const DataSpec& data) override {
    ToyModel::prepare(data);
    filters_ = register_module("filters", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3).padding(1)));
  }
  at::Tensor forward(const at::Tensor& input) override {
    threads.push_back(std::this_thread::get_id());
    return ToyModel::forward(filters_(input.view({-1, 1, 2, 4})).mean(1).flatten(1));
  }
  std::vector<std::thread::id> threads;

 private:
  torch::nn::Conv2d filters_{nullptr};
};

// cuDNN's choice of algorithms is each thread's own: a new thread would make it anew in each step.
TEST_F(Gpu, ACopyIsComputedByTheSameThreadInEachStep) {
  std::vector<DataParallel::Copy> copies;
  for (int i = 0; i < 2; ++i) {
    copies.push_back({std::make_shared<Filtering>(), backend_->device()});
    copies.back().model->prepare({.sample_shape = {8}, .classes = 3});
    copies.back().model->to(backend_->device());
  }
  TrainLoader source(std::make_shared<ToyDataset>(200, 0), {.global_batch = 20}, 42, {}, backend_->device(), 0);
  DataParallel parallel(copies);
  for (int step = 0; step < 5; ++step) {
    parallel.refresh();
    parallel.step(source.next().batch, testing::MeanCrossEntropy()).loss.backward();
    parallel.collect_gradients();
  }
  for (const auto& copy : copies) {
    const auto& threads = dynamic_cast<Filtering&>(*copy.model).threads;
    ASSERT_EQ(threads.size(), 5U);
    EXPECT_EQ(std::ranges::count(threads, threads.front()), 5);
  }
}

// Half a word at the end of one is filled up; the third is digested in portions.
TEST_F(Gpu, ADigestIsThatOfTheWordsOneAfterTheOther) {
  const std::vector<at::Tensor> tensors{at::randn({37}), at::randn({3, 5}).to(at::kHalf), at::arange((9 << 20) + 3)};
  std::vector<at::Tensor> on_gpu;
  uint64_t expected = 0, place = 0;
  for (const auto& tensor : tensors) {
    on_gpu.push_back(tensor.cuda());
    const auto* bytes = static_cast<const uint8_t*>(tensor.const_data_ptr());
    for (size_t begin = 0; begin < tensor.nbytes(); begin += sizeof(uint64_t), ++place) {
      uint64_t word = 0;
      std::memcpy(&word, bytes + begin, std::min(sizeof word, tensor.nbytes() - begin));
      word += place * 0x9E3779B97F4A7C15;
      word = (word ^ word >> 32) * 0xBF58476D1CE4E5B9;
      expected += word ^ word >> 29;
    }
  }
  EXPECT_EQ(digest_of(on_gpu), expected);
  const std::vector<std::string> names{"a", "b.weight", "c"};
  EXPECT_EQ(digest_of(names, on_gpu), digest_of(names, tensors));
}

}  // namespace
}  // namespace ddprun
