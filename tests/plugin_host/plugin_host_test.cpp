// SPDX-License-Identifier: MIT
#include "plugin_host/plugin_host.h"

#include "plugin_host/fixture_files.h"
#include "plugin_host/make_choice.h"
#include "plugin_host/plugin_call.h"
#include "support/error_of.h"

#include <ddprun/error.h>
#include <ddprun/logger.h>
#include <ddprun/model.h>

#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

namespace ddprun {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

PluginHost host() { return PluginHost({fixture_folder()}); }

std::string error_of_making(const std::string& logger,
                            const std::vector<std::pair<std::string, std::string>>& options = {}) {
  return error_of([&] { host().make_logger(make_choice(logger, options)); });
}

std::string what_it_read(std::vector<std::pair<std::string, std::string>> options) {
  options.push_back({"project", "p"});
  const auto logger = host().make_logger(make_choice("reads_all_option_types", options));
  return error_of([&] { logger->start({}); });
}

TEST(PluginHost, OptionsReachTheConstructor) {
  EXPECT_EQ(what_it_read({}), "false 3 0.5  1 2 0.5 mean p");
  EXPECT_EQ(what_it_read({{"flag", "true"},
                          {"count", "9"},
                          {"rate", "2e-1"},
                          {"file", "a b"},
                          {"sizes", "[7]"},
                          {"betas", "[1, 0.25]"},
                          {"names", "[x, y]"},
                          {"reduction", "sum"}}),
            "true 9 0.2 a b 7 1 0.25 x y sum p");
}

TEST(PluginHost, AllMistakesInTheOptionsComeAtOnceEachWithItsPlace) {
  const auto text = error_of_making("reads_all_option_types", {{"count", "12"}, {"flag", "yes"}, {"cuont", "3"}});
  EXPECT_THAT(text, AllOf(HasSubstr("test.yaml:4:20: part.count: expected int 1 .. 9, found 12\n"),
                          HasSubstr("test.yaml:5:20: part.flag: expected bool, found \"yes\"; write true\n"),
                          HasSubstr("part.project: missing"),
                          HasSubstr("test.yaml:6:5: part.cuont: unknown key; did you mean count?")));
}

TEST(PluginHost, ASecretReachesTheConstructorAndNoErrorShowsIt) {
  setenv("DDPRUN_TEST_SECRET", "4711", 1);
  const auto text =
      error_of_making("reads_all_option_types", {{"count", "${secret:DDPRUN_TEST_SECRET}"}, {"project", "p"}});
  EXPECT_EQ(text, "test.yaml:4:20: part.count: expected int 1 .. 9, found ${secret:DDPRUN_TEST_SECRET}");
  const auto logger = host().make_logger(
      make_choice("reads_all_option_types", {{"file", "a${secret:DDPRUN_TEST_SECRET}"}, {"project", "p"}}));
  EXPECT_EQ(error_of([&] { logger->start({}); }), "false 3 0.5 a4711 1 2 0.5 mean p");
}

TEST(PluginHost, AFlawComesWithThePlaceOfTheName) {
  EXPECT_THAT(error_of_making("bad_sdk_version"),
              AllOf(StartsWith("test.yaml:3:10: part: "), HasSubstr("bad_sdk_version.so: built with ddprun SDK ")));
  EXPECT_THAT(error_of_making("bad_missing_dependency"),
              AllOf(StartsWith("test.yaml:3:10: part: "), HasSubstr("libfixture_missing_library.so")));
  EXPECT_THAT(error_of_making("no_such_plugin"), StartsWith("test.yaml:3:10: part: there is no logger plugin"));
}

TEST(PluginHost, APluginOfAnotherSdkIsRefusedWithoutRunningALineOfIt) {
  EXPECT_THAT(error_of([] { host().describe("bad_sdk_version", ""); }), HasSubstr("built with ddprun SDK"));
}

TEST(PluginHost, WhateverTheConstructorThrowsBecomesAnErrorWithThePluginsName) {
  const auto prefix = StartsWith("test.yaml:3:10: part: plugin bad_throws_in_constructor (");
  EXPECT_THAT(error_of_making("bad_throws_in_constructor", {{"throw", "user_error"}}),
              AllOf(prefix, HasSubstr("): the file log.txt is missing")));
  EXPECT_THAT(error_of_making("bad_throws_in_constructor", {{"throw", "exception"}}),
              AllOf(prefix, HasSubstr("threw while it was constructed: index 7")));
  EXPECT_THAT(error_of_making("bad_throws_in_constructor", {{"throw", "number"}}),
              AllOf(prefix, HasSubstr("not a std::exception")));
}

TEST(PluginHost, AThrowingConstructorDoesNotMakeUnreadOptionsUnknown) {
  const auto text = error_of_making("bad_throws_in_constructor", {{"later", "2"}, {"throw", "later"}});
  EXPECT_THAT(text, AllOf(HasSubstr("part.throw: expected user_error | exception | number"), HasSubstr("index 7"),
                          Not(HasSubstr("unknown key"))));
}

TEST(PluginHost, ExceptionsAndCastsMeanTheSameOnBothSides) {
  const auto model = host().make_model(make_choice("crosses_the_boundary"));
  EXPECT_THROW(model->prepare({}), UserError);
  EXPECT_NE(dynamic_cast<const Objective*>(model.get()), nullptr);
  EXPECT_EQ(dynamic_cast<const Logger*>(model.get()), nullptr);
  model->prepare({.classes = 3});
  EXPECT_NE(model->named_children()["linear"]->as<torch::nn::Linear>(), nullptr);
  EXPECT_EQ(model->forward(at::ones({5, 2})).sizes(), at::IntArrayRef({5, 3}));
}

TEST(PluginHost, AnObjectOutlivesItsHost) {
  std::shared_ptr<Model> model;
  {
    const PluginHost short_lived({fixture_folder()});
    model = short_lived.make_model(make_choice(fixture("crosses_the_boundary")));
  }
  model->prepare({.classes = 2});
  EXPECT_EQ(model->parameters().size(), 2U);
}

TEST(PluginHost, DescribesWhatAConstructorDeclares) {
  const auto description = host().describe("reads_all_option_types", "logger");
  ASSERT_EQ(description.options.size(), 10U);
  EXPECT_EQ(description.options[1].name, "count");
  EXPECT_EQ(description.options[1].range, "1 .. 9");
  EXPECT_EQ(description.problem, "");
  const auto thrower = host().describe("bad_throws_in_constructor", "");
  EXPECT_EQ(thrower.options.size(), 1U);
  EXPECT_THAT(thrower.problem, HasSubstr("index 7"));
}

}  // namespace
}  // namespace ddprun
