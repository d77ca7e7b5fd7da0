// SPDX-License-Identifier: MIT
// Muon against its formula in float64, and under the checks that all optimizers are given.
#include "optimizers/training.h"
#include "support/error_of.h"

#include <ddprun/testing/optimizer.h>

#include <ATen/record_function.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <limits>

namespace ddprun {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

using Tensors = std::vector<at::Tensor>;

std::vector<NamedParameter> named(const Tensors& tensors) {
  std::vector<NamedParameter> parameters;
  for (const auto& tensor : tensors)
    parameters.push_back({"w" + std::to_string(parameters.size()), tensor.clone().requires_grad_()});
  return parameters;
}

std::shared_ptr<Optimizer> started(const std::string& options, const std::vector<NamedParameter>& parameters) {
  return OptimizerCase{"", "muon", options}.started(parameters);
}

void give(const std::vector<NamedParameter>& parameters, const Tensors& gradients) {
  for (size_t i = 0; i < parameters.size(); ++i) parameters[i].value.mutable_grad() = gradients[i].clone();
}

Tensors random_like(const Tensors& tensors, int64_t seed) {
  torch::manual_seed(static_cast<uint64_t>(seed));
  Tensors result;
  for (const auto& tensor : tensors) result.push_back(torch::randn_like(tensor));
  return result;
}

Tensors random(const std::vector<std::vector<int64_t>>& shapes, at::ScalarType type = at::kFloat) {
  torch::manual_seed(7);
  Tensors tensors;
  for (const auto& shape : shapes) tensors.push_back(torch::randn(shape, type));
  return tensors;
}

// What one step makes of these gradients, without momentum and from zero: the orthogonalised gradients.
Tensors orthogonalised(const Tensors& gradients, const std::string& precision = "auto") {
  Tensors zeroes;
  for (const auto& gradient : gradients) zeroes.push_back(torch::zeros_like(gradient));
  const auto parameters = named(zeroes);
  const auto optimizer = started("{lr: 1, momentum: 0, precision: " + precision + "}", parameters);
  give(parameters, gradients);
  optimizer->step();
  Tensors results;
  for (const auto& parameter : parameters) results.push_back(-parameter.value.detach());
  return results;
}

// The steps of one parameter, matrix by matrix in float64.
struct Formula {
  double lr = 0.02, momentum = 0.95, weight_decay = 0;
  bool nesterov = true, normalize = false;
  at::Tensor buffer{};

  at::Tensor stepped(const at::Tensor& weight, const at::Tensor& gradient) {
    buffer = buffer.defined() ? momentum * buffer + gradient : gradient;
    const auto direction = nesterov ? gradient + momentum * buffer : buffer;
    const auto start = normalize ? weight * std::sqrt(weight.size(0)) / weight.norm() : weight;
    return start * (1 - lr * weight_decay) - lr * iterated(direction.flatten(1)).view_as(weight);
  }

  static at::Tensor iterated(const at::Tensor& matrix) {
    auto x = matrix / matrix.norm();
    for (int i = 0; i < 5; ++i) {
      const auto cube = x.mm(x.t()).mm(x);
      x = 3.4445 * x - 4.7750 * cube + 2.0315 * x.mm(x.t()).mm(cube);
    }
    return x;
  }
};

// The operators of LibTorch that something calls on this thread, "aten::bmm", also those that an operator calls itself.
template <class Call>
std::vector<std::string> calls_of(Call call) {
  static thread_local std::vector<std::string> names;
  names.clear();
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback([](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
        names.emplace_back(function.name());
        return nullptr;
      }).scopes({at::RecordScope::FUNCTION}));
  call();
  at::removeCallback(handle);
  return names;
}

double largest_difference(const at::Tensor& one, const at::Tensor& other) {
  return (one - other).abs().max().item<double>();
}

const std::vector<std::vector<int64_t>> kShapes = {{64, 16}, {16, 64}, {12, 12}, {16, 64}, {8, 3, 3, 3}, {16, 4, 4, 4}};

// How many singular values are at least `least` of the norm; the iteration has no time to raise smaller ones.
int64_t large_values(const at::Tensor& matrix, double least) {
  return torch::linalg_svdvals(matrix).ge(least * matrix.norm()).sum().item<int64_t>();
}

TEST(Muon, BringsSingularValuesNearToOne) {
  for (const auto& [precision, type] : {std::pair("fp32", at::kFloat), {"bf16", at::kFloat}, {"fp32", at::kBFloat16}}) {
    const auto gradients = random(kShapes, type), results = orthogonalised(gradients, precision);
    for (size_t i = 0; i < results.size(); ++i) {
      const auto values = torch::linalg_svdvals(results[i].flatten(1).to(at::kFloat));
      const auto large = large_values(gradients[i].flatten(1).to(at::kFloat), 0.003);
      EXPECT_GE(large, values.numel() - 1) << "a square matrix may have one that is small";
      EXPECT_GE(values.gt(0.6).sum().item<int64_t>(), large) << results[i].sizes() << " " << precision;
      EXPECT_LT(values.max().item<float>(), 1.3F) << results[i].sizes() << " " << precision;
    }
  }
}

TEST(Muon, KeepsSingularVectorsAndTheScaleOfTheGradientDoesNotMatter) {
  const auto gradients = random(kShapes, at::kDouble);
  Tensors small;
  for (const auto& gradient : gradients) small.push_back(gradient * 1e-9);
  const auto results = orthogonalised(gradients), of_small = orthogonalised(small);
  for (size_t i = 0; i < results.size(); ++i) {
    const auto [u, s, v] = torch::linalg_svd(gradients[i].flatten(1), /*full_matrices=*/false);
    const auto rotated = u.t().mm(results[i].flatten(1)).mm(v.t());
    EXPECT_LT(largest_difference(rotated, rotated.diagonal().diag()), 1e-10) << gradients[i].sizes();
    EXPECT_LT(largest_difference(results[i], of_small[i]), 1e-10) << gradients[i].sizes();
  }
}

TEST(Muon, StepsByItsFormula) {
  for (const bool variant : {false, true}) {
    const auto parameters = named(random(kShapes, at::kDouble));
    const auto optimizer = started(variant ? "{lr: 0.3, momentum: 0.6, normalize: true, weight_decay: 0.1}"
                                           : "{nesterov: false, weight_decay: 0.5}",
                                   parameters);
    const Formula formula = variant ? Formula{.lr = 0.3, .momentum = 0.6, .weight_decay = 0.1, .normalize = true}
                                    : Formula{.weight_decay = 0.5, .nesterov = false};
    std::vector<Formula> formulas(parameters.size(), formula);
    Tensors expected = random(kShapes, at::kDouble);
    for (int64_t step = 0; step < 5; ++step) {
      const auto gradients = random_like(expected, step);
      give(parameters, gradients);
      optimizer->step();
      for (size_t i = 0; i < expected.size(); ++i) {
        expected[i] = formulas[i].stepped(expected[i], gradients[i]);
        EXPECT_LT(largest_difference(parameters[i].value, expected[i]), 1e-11) << expected[i].sizes() << " " << step;
      }
    }
  }
}

TEST(Muon, TakesMatricesOfOneShapeTogetherAsEachAlone) {
  const auto gradients = random({{8, 27}, {27, 8}, {8, 27}, {8, 3, 3, 3}, {27, 8}, {5, 5}}, at::kDouble);
  const auto together = orthogonalised(gradients);
  for (size_t i = 0; i < gradients.size(); ++i)
    EXPECT_LT(largest_difference(together[i], orthogonalised({gradients[i]})[0]), 1e-11) << i;
}

TEST(Muon, MultipliesMatricesOfOneShapeInOneCall) {
  const auto gradients = random({{8, 27}, {8, 27}, {8, 3, 3, 3}, {8, 27, 1}});
  const auto called = calls_of([&] { orthogonalised(gradients); });
  EXPECT_EQ(std::ranges::count(called, "aten::bmm"), 5);
  EXPECT_EQ(std::ranges::count(called, "aten::baddbmm"), 10);
}

// What would wait for a GPU.
TEST(Muon, ReadsNoTensorOnTheHost) {
  const auto parameters = make_parameters();
  const auto optimizer = started("{normalize: true, weight_decay: 0.1}", parameters);
  const auto overflow = torch::zeros({});
  const auto reading =
      AnyOf("aten::item", "aten::_local_scalar_dense", "aten::is_nonzero", "aten::nonzero", "aten::equal");
  for (int64_t step = 4; step < 7; ++step) {  // "late" joins
    set_gradients(parameters, step);
    const auto called = calls_of([&] {
      optimizer->step();
      optimizer->step_unless(overflow);
    });
    EXPECT_THAT(called, Contains("aten::_fused_sgd_"));
    EXPECT_THAT(called, Each(Not(reading)));
  }
  EXPECT_THAT(calls_of([&] { overflow.item<float>(); }), Contains(reading));
}

// Five matrices of 2 x 2^20 numbers: two stacks of two, and the last one alone.
TEST(Muon, ItsPartsAreStacksOfAboutFourMillionNumbers) {
  const auto parameters =
      named(random({{2, 1 << 20}, {2, 1 << 20}, {3}, {2, 1 << 20}, {1 << 20, 2}, {2, 1 << 20}, {2, 1 << 20}}));
  const auto parts = started("{}", parameters)->step_parts();
  std::vector<std::vector<std::string>> names;
  for (const auto& part : parts) names.push_back(part.parameters);
  EXPECT_EQ(names, (std::vector<std::vector<std::string>>{{"w0", "w1"}, {"w3", "w5"}, {"w4"}, {"w6"}, {"w2"}}));
  EXPECT_EQ(parts[4].cost, 3);
  EXPECT_GT(parts[0].cost, 4 << 20);
  EXPECT_EQ(parts[0].cost, 2 * parts[3].cost);
}

TEST(Muon, AMatrixCostsMoreTheLongerItsShortSide) {
  const auto parts = started("{}", named(random({{64, 64}, {2, 2048}})))->step_parts();
  EXPECT_GT(parts[0].cost, 2 * parts[1].cost);
}

// Whatever other matrices there are, and whether those are trained.
TEST(Muon, AStackHasTheSameBitsInAnyCompany) {
  const auto parameters = named(random({{33, 70}, {33, 70}, {20, 9}, {33, 70}, {20, 9}, {5}}));
  const auto optimizer = started("{}", parameters);
  for (const auto& part : optimizer->step_parts()) {
    const auto whole = copies(parameters), alone = copies(parameters);
    const auto one = started("{}", alone), all = started("{}", whole);
    for (int64_t step = 0; step < 3; ++step) {
      set_gradients(whole, step);
      all->step();
      set_gradients(alone, step);
      for (const auto& [name, value] : alone)
        if (std::ranges::count(part.parameters, name) == 0) value.mutable_grad().reset();
      one->step();
    }
    for (size_t i = 0; i < alone.size(); ++i) {
      if (std::ranges::count(part.parameters, alone[i].name) == 0) continue;
      EXPECT_TRUE(torch::equal(whole[i].value, alone[i].value)) << alone[i].name;
    }
  }
}

TEST(Muon, PassesTheChecksOfAllOptimizers) {
  const std::vector<check::Settings> settings = {
      {},
      {{"normalize", true}, {"weight_decay", 0.1}},
      {{"precision", "bf16"}, {"momentum", 0.6}, {"nesterov", false}, {"ns_steps", 3}},
      {{"others", {"conv.*"}}, {"others_weight_decay", 0.1}, {"others_momentum", 0}}};
  for (size_t i = 0; i < settings.size(); ++i)
    EXPECT_THAT(check::all({.make = check::optimizer_plugin(MUON_PLUGIN, settings[i])}), IsEmpty()) << i;
}

TEST(Muon, RemembersTheMomentumOfEachParameter) {
  const auto parameters = make_parameters();
  const auto optimizer = started("{momentum: 0.5, others_momentum: 0.5}", parameters);
  std::map<std::string, at::Tensor> sums;
  for (int64_t step = 5; step < 8; ++step) {
    set_gradients(parameters, step);
    optimizer->step();
    for (const auto& [name, value] : parameters) {
      if (!value.grad().defined()) continue;
      auto& sum = sums[name + "/momentum"];
      sum = sum.defined() ? 0.5 * sum + value.grad() : value.grad().clone();
    }
  }
  const auto state = optimizer->state();
  EXPECT_EQ(state.size(), sums.size());
  for (const auto& [name, sum] : sums) EXPECT_TRUE(torch::allclose(state.at(name), sum)) << name;
}

// Three steps from these weights, which keep their layout.
Tensors trained(const Tensors& weights) {
  const auto parameters = named(weights);
  const auto optimizer = started("{normalize: true}", parameters);
  for (int64_t step = 0; step < 3; ++step) {
    torch::manual_seed(static_cast<uint64_t>(step));
    for (const auto& [name, value] : parameters)
      value.mutable_grad() = torch::empty_like(value.detach()).copy_(torch::randn(value.sizes(), at::kDouble));
    optimizer->step();
  }
  Tensors results;
  for (size_t i = 0; i < parameters.size(); ++i) {
    EXPECT_EQ(parameters[i].value.strides(), weights[i].strides());
    results.push_back(parameters[i].value.detach());
  }
  return results;
}

TEST(MuonLayouts, ChangeNothing) {
  const auto weights = random({{8, 3, 3, 3}, {8, 6, 1, 1}, {1, 4, 2, 2}, {7, 5}, {6, 4, 2}}, at::kDouble);
  Tensors others;
  for (const auto& weight : weights)
    others.push_back(weight.dim() == 4 ? weight.contiguous(at::MemoryFormat::ChannelsLast)
                                       : weight.movedim(0, -1).contiguous().movedim(-1, 0));
  const auto expected = trained(weights), results = trained(others);
  for (size_t i = 0; i < weights.size(); ++i)
    EXPECT_LT(largest_difference(results[i], expected[i]), 1e-11) << weights[i].sizes();
}

TEST(MuonLayouts, OfWhichNoMatrixCanBeMadeAreRefused) {
  const std::vector<NamedParameter> parameters{{"up.weight", torch::zeros({3, 8, 2, 2}).transpose(0, 1)}};
  EXPECT_THAT(error_of([&] { started("{}", parameters); }),
              AllOf(StartsWith("muon: the memory of up.weight has strides [4, 32, 2, 1] for sizes [8, 3, 2, 2]"),
                    HasSubstr("name it in the option others")));
  EXPECT_EQ(error_of([&] { started("{others: up.*}", parameters); }), "");
}

TEST(Muon, TrainsANetworkToSayClustersApart) {
  torch::manual_seed(3);
  const auto centres = torch::randn({10, 1, 6, 6});
  const auto labels = torch::arange(200).remainder(10);
  const auto images = centres.index_select(0, labels) + 0.7 * torch::randn({200, 1, 6, 6});
  torch::nn::Sequential network(torch::nn::Conv2d(1, 8, 3), torch::nn::ReLU(), torch::nn::Flatten(),
                                torch::nn::Linear(128, 10));
  std::vector<NamedParameter> parameters;
  for (const auto& item : network->named_parameters()) parameters.push_back({item.key(), item.value()});
  const auto optimizer = started("{lr: 0.05, others: 3.weight}", parameters);
  for (int step = 0; step < 30; ++step) {
    network->zero_grad();
    torch::nn::functional::cross_entropy(network->forward(images), labels).backward();
    optimizer->step();
  }
  EXPECT_GT(network->forward(images).argmax(1).eq(labels).sum().item<int64_t>(), 160);  // by chance 20
}

}  // namespace
}  // namespace ddprun
