// @name@: focal loss (Lin and others, ICCV 2017): cross-entropy in which a sample counts the less, the surer the model is
// of its class. Make it yours.
#include <ddprun/error.h>
#include <ddprun/objective.h>

#include <ATen/ATen.h>

namespace {

class @class@ final : public ddprun::Objective {
 public:
  // Reads the options, and nothing more.
  explicit @class@(ddprun::Options& options)
      : gamma_(options.get<double>("gamma", 2, "0: plain cross-entropy", {.min = 0})) {}

  // The mean over the samples, each apart from the others: then it is the same for any number of workers.
  at::Tensor loss(const at::Tensor& prediction, const at::Tensor& target) const override {
    if (prediction.dim() != 2 || target.dim() != 1 || prediction.size(0) != target.size(0))
      throw ddprun::UserError("expected [B, C] logits and [B] classes");
    const auto wide = prediction.scalar_type() == at::kDouble ? prediction : prediction.to(at::kFloat);
    const auto log_p = at::log_softmax(wide, 1).gather(1, target.unsqueeze(1)).squeeze(1);
    return -(at::pow(1 - log_p.exp(), gamma_) * log_p).mean();
  }

  // Sums over samples, with their number.
  std::vector<ddprun::MetricSum> metrics(const at::Tensor& prediction, const at::Tensor& target) const override {
    return {{.name = "accuracy", .sum = prediction.argmax(1).eq(target).sum(), .count = target.size(0)}};
  }

  at::Tensor scores(const at::Tensor& prediction) const override { return at::softmax(prediction.to(at::kFloat), 1); }

 private:
  const double gamma_;
};

}  // namespace

DDPRUN_OBJECTIVE(@class@, "@name@", "focal loss of classes, [B, C] logits")
