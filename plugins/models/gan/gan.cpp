// SPDX-License-Identifier: MIT
// A generative adversarial network for small images (Goodfellow et al.: "Generative adversarial nets", 2014): a
// generator paints images from noise, a discriminator distinguishes them from the dataset's, and each learns from the
// other. Labels are ignored.
//
// Both networks share ONE optimizer and one step. Their losses are added, for one backward and one gradient exchange,
// and yet each network's gradient is that of its own loss alone:
//   - the discriminator judges the painted images detached: its loss ends at the images, short of the generator;
//   - the generator is judged by the discriminator with detached weights: its loss goes through and leaves nothing.
// Adam's state is per parameter, so the networks do not mix there either. Both move at once: this is simultaneous
// gradient descent, and it cannot do k steps of one and then one of the other. To speed one up, give it a learning rate
// of its own (the two time-scale rule; Heusel et al.: "GANs trained by a two time-scale update rule ...", 2017), in the
// experiment:
//
//   optimizer: {plugin: adam, lr: 0.0002, betas: [0.5, 0.999], groups: [{parameters: "discriminator.*", lr: 0.0004}]}
//
// The generator's loss is the non-saturating one: -log D(G(z)), not log(1 - D(G(z))). Finite differences of the sum see
// what detaching hides, so `ddprun check --gradients` cannot agree with backward here.
#include "players.h"

#include <ddprun/error.h>
#include <ddprun/model.h>
#include <ddprun/random.h>

#include <ATen/ops/ones_like.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softplus.h>

namespace {

using Weights = ddprun::gan::Discriminator::Weights;

constexpr uint64_t kEvaluationSeed = 0x67616E;  // "gan"

// Noise is uniform in [-1, 1).
at::Tensor centred(const at::Tensor& uniform) { return 2 * uniform - 1; }

ddprun::MetricSum over_samples(const char* name, const at::Tensor& values) {
  return {.name = name, .sum = values.detach().sum(), .count = values.size(0)};
}

class Gan final : public ddprun::Model {
 public:
  explicit Gan(ddprun::Options& options)
      : noise_(options.get<int64_t>("noise", 64, "numbers that an image is painted from", {.min = 1, .max = 1 << 16})),
        width_(options.get<int64_t>("width", 32, "channels at half the image's size; twice as many at a quarter",
                                    {.min = 1, .max = 1 << 12})),
        dropout_(options.get<double>("dropout", 0.3, "probability of dropping a unit of the discriminator in training",
                                     {.min = 0, .max = 0.99})),
        low_(options.get<double>("low", -1, "smallest value of a pixel in the dataset")),
        high_(options.get<double>("high", 1, "largest value of a pixel")),
        kept_(options.get<int64_t>("kept", 64, "draws of noise that forward() paints, the same in each evaluation",
                                   {.min = 1, .max = 1 << 16})) {
    if (low_ >= high_) options.reject("high", "expected a number above low");
  }

  void prepare(const ddprun::DataSpec& data) override {
    const auto& shape = data.sample_shape;
    if (shape.size() != 3 || shape[1] % 4 != 0 || shape[2] % 4 != 0) {
      throw ddprun::UserError(c10::str("gan takes images [channels, height, width] with sides divisible by 4, but the ",
                                       "dataset's samples are ", at::IntArrayRef(shape)));
    }
    generator_ = std::make_shared<ddprun::gan::Generator>(shape, noise_, width_, low_, high_);
    discriminator_ = std::make_shared<ddprun::gan::Discriminator>(shape, width_, dropout_);
    register_module("generator", generator_);
    register_module("discriminator", discriminator_);
    kept_noise_ = register_buffer("noise", centred(at::rand({kept_, noise_})));
  }

  // Returns one painting per input, from the first draw of the kept noise, the second, ..., whatever the inputs are.
  at::Tensor forward(const at::Tensor& input) override {
    const auto ones = at::ones_like(input.flatten(1).select(1, 0), input.options().dtype(at::kLong));
    const auto rows =
        (ones.cumsum(0) - 1).remainder(kept_);  // no input.size(0): `ddprun export` records it as a number
    return generator_->forward(kept_noise_.index_select(0, rows));
  }

  ddprun::Step step(const ddprun::Batch& batch, const ddprun::Objective&) override {
    const auto painted = generator_->forward(noise_for(batch));
    const auto real = discriminator_->forward(batch.input, Weights::kTrained).to(loss_type());
    const auto fake = discriminator_->forward(painted.detach(), Weights::kTrained).to(loss_type());
    const auto judged = discriminator_->forward(painted, Weights::kDetached).to(loss_type());
    const auto of_discriminator = at::softplus(-real) + at::softplus(fake);  // -log D(x) - log(1 - D(G(z)))
    const auto of_generator = at::softplus(-judged);                         // -log D(G(z))
    return {
        .loss = of_discriminator.mean() + of_generator.mean(),
        .metrics = {over_samples("loss_generator", of_generator), over_samples("loss_discriminator", of_discriminator),
                    over_samples("real_score", at::sigmoid(real)), over_samples("fake_score", at::sigmoid(fake))}};
  }

 private:
  // In evaluation the sample's number seeds the noise, so metrics do not depend on the step or the number of workers.
  at::Tensor noise_for(const ddprun::Batch& batch) const {
    if (is_training()) return centred(at::rand({batch.size(), noise_}, kept_noise_.options()));
    return centred(ddprun::uniform_for_samples(kEvaluationSeed, 0, batch.index, noise_)).to(kept_noise_.options());
  }

  // Mixed precision gives 16-bit logits.
  at::ScalarType loss_type() const { return kept_noise_.scalar_type() == at::kDouble ? at::kDouble : at::kFloat; }

  const int64_t noise_, width_;
  const double dropout_, low_, high_;
  const int64_t kept_;
  std::shared_ptr<ddprun::gan::Generator> generator_;
  std::shared_ptr<ddprun::gan::Discriminator> discriminator_;
  at::Tensor kept_noise_;  // [kept, noise], saved in checkpoints
};

}  // namespace

DDPRUN_MODEL(Gan, "gan", "paints images like the dataset's: a generator and a discriminator that learn from each other")
