// @name@: points on the arms of a spiral, drawn by the program: a class for each arm. Make it yours.
#include <ddprun/dataset.h>
#include <ddprun/random.h>

#include <ATen/ops/empty.h>  // a * b is in <ATen/TensorOperators.h>; all of <ATen/ATen.h> takes ten seconds

#include <cmath>

namespace {

class @class@ final : public ddprun::Dataset {
 public:
  // Reads the options, and nothing more: `ddprun check` and `ddprun plugins show @name@` construct it too.
  explicit @class@(ddprun::Options& options)
      : train_size_(options.get<int64_t>("train_size", 6000, "training points", {.min = 1})),
        test_size_(options.get<int64_t>("test_size", 1000, "points of validation and of test", {.min = 0})),
        arms_(options.get<int64_t>("arms", 3, "arms of the spiral, each a class", {.min = 2})),
        noise_(options.get<double>("noise", 0.05, "how far points stray from their arm", {.min = 0})) {}

  // Runs in one process of each node before the workers start. Here one would download and decode:
  //   void prepare(const ddprun::Progress& progress) override;
  //   bool is_prepared() const override;  // whether that has been done: then `ddprun check` looks at the samples

  // Runs in every worker: open files here. From now on everything is const, and called from several threads at once.
  void start() override {}

  ddprun::DataSpec spec() const override { return {.sample_shape = {2}, .classes = arms_}; }

  // 0 where there is no such split.
  int64_t size(ddprun::Split split) const override { return split == ddprun::Split::kTrain ? train_size_ : test_size_; }

  // The samples of these numbers, in this order, in memory of their own. A number means the same sample each time and
  // on every worker: here it is drawn from a stream of its own.
  ddprun::Batch get(ddprun::Split split, std::span<const int64_t> indices) const override {
    const auto count = static_cast<int64_t>(indices.size());
    ddprun::Batch batch{.input = at::empty({count, 2}),
                        .target = at::empty({count}, at::kLong),
                        .index = at::empty({count}, at::kLong)};
    auto* points = batch.input.data_ptr<float>();
    for (int64_t row = 0; row < count; ++row) {
      const auto number = indices[static_cast<size_t>(row)];
      batch.target.data_ptr<int64_t>()[row] = number % arms_;
      batch.index.data_ptr<int64_t>()[row] = number;
      draw(split, number, points + 2 * row);
    }
    return batch;
  }

 private:
  void draw(ddprun::Split split, int64_t number, float* point) const {
    ddprun::RandomStream random(/*seed=*/1, static_cast<uint64_t>(split), static_cast<uint32_t>(number));
    const double radius = random.uniform(0.1, 1);
    const double angle = 2 * M_PI * (radius + static_cast<double>(number % arms_) / static_cast<double>(arms_));
    point[0] = static_cast<float>(radius * std::cos(angle) + noise_ * random.normal());
    point[1] = static_cast<float>(radius * std::sin(angle) + noise_ * random.normal());
  }

  const int64_t train_size_, test_size_, arms_;
  const double noise_;
};

}  // namespace

DDPRUN_DATASET(@class@, "@name@", "points on the arms of a spiral, drawn by the program")
