// SPDX-License-Identifier: MIT
// The interpreter of exported programs, on programs written by hand. EndToEnd.Exported compares real ones with Python.
#include "graph_reader.h"
#include "results.h"
#include "size_functions.h"
#include "support/error_of.h"

#include <ddprun/arriving_weights.h>
#include <ddprun/error.h>
#include <ddprun/objective.h>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <vector>

namespace ddprun::exported {
namespace {

using c10::IValue;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A program that takes tensors x and y. `nodes` is a list of JSON objects without its brackets.
Graph graph_of(const std::string& nodes, const std::string& output = "out") {
  return read_graph(nlohmann::json::parse(R"({"inputs": [{"as_tensor": {"name": "x"}}, {"as_tensor": {"name": "y"}}],
    "outputs": [{"as_tensor": {"name": ")" +
                                          output + R"("}}], "nodes": [)" + nodes + "]}"))
      .graph;
}

std::string node(const std::string& target, const std::string& inputs, const std::string& output = "out") {
  return R"({"target": ")" + target + R"(", "inputs": [)" + inputs + R"(], "outputs": [{"as_tensor": {"name": ")" +
         output +
         R"("}}], "metadata": {"stack_trace": "File \"/lib/torch/nn/linear.py\", line 3, in forward\n  File \"net.py\", line 12, in f"}})";
}

std::string input(const std::string& name, const std::string& value) {
  return R"({"name": ")" + name + R"(", "arg": )" + value + "}";
}

std::string tensor(const std::string& name, const std::string& value) {
  return input(name, R"({"as_tensor": {"name": ")" + value + R"("}})");
}

at::Tensor run(const Graph& graph, const at::Tensor& x, const at::Tensor& y = at::ones({1})) {
  return graph.run({x, y}, at::kCPU).at(0).toTensor();
}

TEST(Exported, ANumberForATensorDoesNotChangeItsType) {
  const auto graph =
      graph_of(node("torch.ops.aten.mul.Tensor", tensor("self", "x") + "," + input("other", R"({"as_float": 2.5})")));
  const auto result = run(graph, at::ones({2}, at::kBFloat16));
  EXPECT_EQ(result.scalar_type(), at::kBFloat16);
  EXPECT_EQ(result[1].item<float>(), 2.5);
}

TEST(Exported, AValueThatIsReadTwiceInOneCallIsThereBothTimes) {
  const auto graph = graph_of(
      node("torch.ops.aten.relu.default", tensor("self", "x"), "z") + "," +
      node("torch.ops.aten.cat.default", input("tensors", R"({"as_tensors": [{"name": "z"}, {"name": "z"}]})") + "," +
                                             input("dim", R"({"as_int": 0})")));
  EXPECT_EQ(run(graph, at::ones({3})).size(0), 6);
}

TEST(Exported, MissingArgumentsHaveTheSchemasDefaults) {
  const auto graph = graph_of(node("torch.ops.aten.add.Tensor", tensor("self", "x") + "," + tensor("other", "y")));
  EXPECT_EQ(run(graph, at::ones({1}), at::ones({1})).item<float>(), 2);
}

TEST(Exported, InfinityIsWritten) {
  const auto graph = graph_of(node("torch.ops.aten.clamp_min.default",
                                   tensor("self", "x") + "," + input("min", R"({"as_float": "Infinity"})")));
  EXPECT_TRUE(std::isinf(run(graph, at::ones({1})).item<float>()));
}

TEST(Exported, ABlockWithoutGradientsEndsWithItsBody) {
  const auto body = R"({"as_graph": {"name": "body", "graph": {"inputs": [{"as_tensor": {"name": "a"}}],
    "outputs": [{"as_tensor": {"name": "b"}}], "nodes": [)" +
                    node("torch.ops.aten.exp.default", tensor("self", "a"), "b") + "]}}}";
  const auto graph = graph_of(
      node("torch.ops.higher_order.wrap_with_set_grad_enabled",
           input("enabled", R"({"as_bool": false})") + "," + input("body", body) + "," + tensor("a", "x"), "z") +
      "," + node("torch.ops.aten.mul.Tensor", tensor("self", "z") + "," + tensor("other", "x")));
  const auto x = at::ones({1}).set_requires_grad(true);
  run(graph, x).backward();
  EXPECT_FLOAT_EQ(x.grad().item<float>(), std::exp(1.0F));  // with the block's gradient it would be twice that
}

TEST(Exported, ErrorsNameTheOperatorAndTheUsersLine) {
  EXPECT_THAT(error_of([] { graph_of(node("torch.ops.my.gelu.default", tensor("self", "x"))); }),
              AllOf(HasSubstr("net.py:12"), HasSubstr("my::gelu"), HasSubstr("not in this LibTorch")));
  EXPECT_THAT(
      error_of([] { graph_of(node("torch.ops.aten.relu.default", tensor("self", "x") + "," + tensor("slope", "x"))); }),
      AllOf(HasSubstr("net.py:12"), HasSubstr("slope")));
  EXPECT_THAT(error_of([] { graph_of(node("torch.ops.aten.relu.default", "")); }), HasSubstr("given no self"));
  EXPECT_THAT(error_of([] { graph_of(node("torch.ops.higher_order.scan", tensor("xs", "x"))); }), HasSubstr("scan"));
  EXPECT_THAT(error_of([] { graph_of(node("torch.ops.aten.relu.default", tensor("self", "later"))); }),
              HasSubstr("later"));
  const auto product = graph_of(node("torch.ops.aten.mm.default", tensor("self", "x") + "," + tensor("mat2", "y")));
  EXPECT_THAT(error_of([&] { run(product, at::ones({2, 3}), at::ones({2, 3})); }),
              AllOf(HasSubstr("net.py:12"), HasSubstr("aten::mm"), HasSubstr("2x3")));
}

std::vector<ResultForm> forms_of(const std::string& over) {
  return result_forms(nlohmann::json::parse(R"({"results": ["loss", "right", "share"], "over": )" + over + "}"));
}

TEST(Exported, BytesAreThoseOfTheSamplesThatItWasExportedWith) {
  const auto bytes_of = [](const std::string& type, const std::string& batch) {
    return read_graph(nlohmann::json::parse(R"({"inputs": [{"as_tensor": {"name": "x"}}], "outputs": [], "nodes": [],
      "tensor_values": {"x": {"dtype": )" + type +
                                            R"(, "sizes": [)" + batch + R"(, {"as_int": 3}]}}})"))
        .graph.bytes.at(0);
  };
  EXPECT_EQ(bytes_of("7", R"({"as_expr": {"expr_str": "s0", "hint": {"as_int": 4}}})"), 4 * 3 * 4);
  EXPECT_EQ(bytes_of("7", R"({"as_expr": {"expr_str": "u0", "hint": null}})"), 0);
  EXPECT_EQ(bytes_of("99", R"({"as_int": 4})"), 0);  // whether it can be computed is its operator's question
}

TEST(Exported, WhatTheRunnerThrowsPassesThrough) {
  struct RankIsLost : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  auto graph = graph_of(node("torch.ops.aten.add.Tensor", tensor("self", "x") + "," + tensor("other", "y")));
  graph.nodes.front().call = [](std::vector<IValue>&, at::Device) -> std::vector<IValue> { throw RankIsLost("lost"); };
  EXPECT_THROW(run(graph, at::ones({1}), at::ones({1})), RankIsLost);
}

TEST(Exported, AWeightIsReadOnceItHasArrived) {
  class Late final : public ArrivingWeights {
   public:
    void wait_for(const at::Tensor& weight) override { at::Tensor(weight).fill_(2); }
  };
  auto graph = graph_of(node("torch.ops.aten.mul.Tensor", tensor("self", "x") + "," + tensor("other", "y")));
  graph.state = {1};
  Late late;
  const ArrivingWeightsScope scope(late);
  EXPECT_EQ(run(graph, at::full({1}, 5), at::ones({1})).item<float>(), 10);
}

TEST(ResultForms, AMetricOfAPartThatCountsNothingAddsNothing) {
  const auto forms = forms_of("[0, 1]");
  const auto target = at::tensor(std::vector<int64_t>{4, kIgnoredClass, 5, kIgnoredClass}).view({2, 2});
  const auto nan = at::full({}, NAN);
  const auto sums = metric_sums(forms, {nan, nan, at::full({}, 0.5)}, target, 2);
  EXPECT_EQ(counted_by(forms[0], target).item<int64_t>(), 2);
  EXPECT_EQ(sums.at(0).counted.item<int64_t>(), 0);
  EXPECT_EQ(sums.at(0).sum.item<double>(), 0);
  EXPECT_FALSE(sums.at(1).counted.defined());
  EXPECT_EQ(sums.at(1).sum.item<double>(), 1);
  EXPECT_EQ(sums.at(1).count, 2);
}

TEST(ResultForms, WhatNoToolWritesIsDamage) {
  for (const auto* over : {"[0,0,0,0]", "[-1]", "[2]", "[\"samples\"]", "[0.5]", "{\"loss\":0}"})
    EXPECT_THAT(error_of([&] { forms_of(over); }), HasSubstr("damaged: in extra/ddprun.json, over")) << over;
}

TEST(SizeFunctions, AreThoseOfPython) {
  const auto call = [](const std::string& name, std::vector<IValue> arguments) {
    return find_size_function(name)(arguments);
  };
  EXPECT_EQ(call("_operator.floordiv", {IValue(-7), IValue(2)}).toInt(), -4);
  EXPECT_EQ(call("_operator.mod", {IValue(-7), IValue(3)}).toInt(), 2);
  EXPECT_EQ(call("_operator.truediv", {IValue(7), IValue(2)}).toDouble(), 3.5);
  EXPECT_EQ(call("_operator.pow", {IValue(2), IValue(10)}).toInt(), 1024);
  EXPECT_EQ(call("_operator.add", {IValue(1), IValue(0.5)}).toDouble(), 1.5);
  EXPECT_TRUE(call("_operator.lt", {IValue(1), IValue(2)}).toBool());
  EXPECT_EQ(call("torch.sym_max", {IValue(3), IValue(9)}).toInt(), 9);
  EXPECT_TRUE(call("_operator.and_", {IValue(true), IValue(true)}).isBool());
  EXPECT_THROW(call("_operator.floordiv", {IValue(1), IValue(0)}), std::runtime_error);
  EXPECT_EQ(find_size_function("os.system"), nullptr);
}

}  // namespace
}  // namespace ddprun::exported
