// SPDX-License-Identifier: MIT
#include "checkpoint/checkpoint_fixture.h"

#include <ATen/Functions.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <memory>
#include <set>
#include <stdexcept>
#include <thread>

namespace ddprun {
namespace {

// agree() for ranks that are threads: the first rank's error goes to all. Texts stay until they are taken.
class Agreement {
 public:
  explicit Agreement(int64_t world_size)
      : barrier_(world_size), errors_(static_cast<size_t>(world_size)), texts_(errors_) {}

  void leave(int64_t rank, const std::string& text) { texts_[static_cast<size_t>(rank)] = text; }
  std::string take(int64_t rank) { return std::exchange(texts_[static_cast<size_t>(rank)], ""); }

  std::string agree(int64_t rank, const std::string& error) {
    errors_[static_cast<size_t>(rank)] = error;
    barrier_.arrive_and_wait();
    const auto first = std::ranges::find_if(errors_, [](const auto& one) { return !one.empty(); });
    const auto result = first == errors_.end() ? "" : *first;
    barrier_.arrive_and_wait();  // nobody writes until all have read
    return result;
  }

 private:
  std::barrier<> barrier_;
  std::vector<std::string> errors_, texts_;
};

}  // namespace

Checkpoint sample_checkpoint(int64_t step, int64_t world_size) {
  const auto base = static_cast<double>(step);
  Checkpoint checkpoint{
      .step = step,
      .model = {{"conv1.weight", at::arange(24, at::kFloat).view({2, 3, 2, 2}) + base},
                {"conv1.bias", at::full({2}, base, at::kBFloat16)},
                {"bn.num_batches_tracked", at::scalar_tensor(step, at::kLong)}},
      .optimizer = {{"conv1.weight/momentum", at::arange(24, at::kFloat).view({2, 3, 2, 2}) * 0.5 - base}},
      .progress = "{\"epoch\": " + std::to_string(step) + "}"};
  if (step % 2 == 0) checkpoint.left_out = {.digest = static_cast<uint64_t>(step), .tensors = 3, .bytes = 4000};
  for (int64_t rank = 0; rank < world_size; ++rank)
    checkpoint.ranks.push_back({{"cpu_generator", at::full({64}, (step + rank) % 256, at::kByte)}});
  return checkpoint;
}

Checkpoint rich_checkpoint(int64_t step, int64_t world_size) {
  auto checkpoint = sample_checkpoint(step, world_size);
  checkpoint.average = {{"conv1.bias", at::full({2}, 0.5)},
                        {"conv1.weight", at::arange(24, at::kDouble).view({2, 3, 2, 2})}};
  checkpoint.optimizer.merge(TensorDict{
      {"bias/none", at::empty({0, 3})},
      {"bias/step", at::scalar_tensor(step, at::kLong)},
      {"bias/mean", at::full({5}, 0.25, at::kBFloat16)},
      {"bias/large", at::arange(step, step + 9999, at::kInt)},
      {"weight/last", at::arange(120, at::kFloat).view({2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast)},
      {"weight/rows", at::arange(10, at::kHalf).slice(0, 0, 10, 2)}});
  return checkpoint;
}

::testing::AssertionResult same(const Checkpoint& a, const Checkpoint& b) {
  if (a.step != b.step) return ::testing::AssertionFailure() << "steps " << a.step << " and " << b.step;
  if (a.left_out != b.left_out) return ::testing::AssertionFailure() << "other weights are left out";
  if (a.progress != b.progress) return ::testing::AssertionFailure() << a.progress << " and " << b.progress;
  if (auto result = same(a.model, b.model); !result) return result << " in the model";
  if (auto result = same(a.average, b.average); !result) return result << " in the averages";
  if (auto result = same(a.optimizer, b.optimizer); !result) return result << " in the optimizer";
  if (a.ranks.size() != b.ranks.size())
    return ::testing::AssertionFailure() << a.ranks.size() << " ranks and " << b.ranks.size();
  for (size_t rank = 0; rank < a.ranks.size(); ++rank) {
    if (auto result = same(a.ranks[rank], b.ranks[rank]); !result) return result << " in rank " << rank;
  }
  return ::testing::AssertionSuccess();
}

Checkpoint part_of(const Checkpoint& whole, int64_t rank, int64_t world_size) {
  Checkpoint part{.step = whole.step};
  if (rank == 0) part = whole;
  part.is_shared = true;
  const auto deal = [&](const TensorDict& tensors, TensorDict& own, TensorsElsewhere& elsewhere) {
    own.clear();
    int64_t owner = 0;
    for (const auto& [name, tensor] : tensors) {
      if (owner == rank) own[name] = tensor;
      if (owner != rank) elsewhere.push_back({safetensors_form(name, tensor), owner});
      owner = (owner + 1) % world_size;
    }
  };
  deal(whole.optimizer, part.optimizer, part.optimizer_elsewhere);
  deal(whole.average, part.average, part.average_elsewhere);
  return part;
}

CheckpointWriter lone_writer(const std::filesystem::path& run_dir, int64_t keep) {
  const auto text = std::make_shared<std::string>();
  return {run_dir,
          keep,
          {.rank = 0,
           .world_size = 1,
           .agree = [](const std::string& error) { return error; },
           .leave = [text](const std::string& left) { *text = left; },
           .take = [text](int64_t) { return *text; }}};
}

void on_ranks(int64_t world_size, const std::function<void(CheckpointWriter::Ranks)>& body) {
  const auto agreement = std::make_shared<Agreement>(world_size);
  std::vector<std::jthread> threads;
  for (int64_t rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([&body, rank, world_size, agreement] {
      body({.rank = rank,
            .world_size = world_size,
            .agree = [=](const std::string& error) { return agreement->agree(rank, error); },
            .leave = [=](const std::string& text) { agreement->leave(rank, text); },
            .take = [=](int64_t from) { return agreement->take(from); }});
    });
  }
}

int status_of_child(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork");
  if (child == 0) {
    try {
      body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
      ::_exit(3);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

std::string names_in(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename());
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : " ") + name;
  return text;
}

}  // namespace ddprun
