// SPDX-License-Identifier: MIT
#include "plugin_host/plugin_call.h"

#include "base/communication_error.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <functional>
#include <new>
#include <thread>

namespace ddprun {
namespace {

// What a hook that throws makes of it, with the section and the problem.
std::string failure_of(const Hook& hook, const std::function<void()>& call) try {
  in_plugin(hook, call);
  return "nothing was thrown";
} catch (const UserError& error) {
  const auto& from = dynamic_cast<const FromPlugin&>(error);
  return "mistake: " + std::string(error.what()) + " | " + from.section + " | " + from.problem;
} catch (const PluginFailure& error) {
  return "failure: " + std::string(error.what()) + " | " + error.section + " | " + error.problem;
}

TEST(PluginCall, ReturnsWhatTheHookReturns) {
  int value = 3;
  EXPECT_EQ(in_plugin({"model", "step"}, [&] { return value; }), 3);
  int& same = in_plugin({"model", "step"}, [&]() -> int& { return value; });
  EXPECT_EQ(&same, &value);
}

TEST(PluginCall, AMistakeStaysAMistakeAndAnyOtherErrorNamesTheInnermostHook) {
  const auto inner = [](const std::function<void()>& hook) {
    return [hook] { in_plugin({"objective", "loss"}, hook); };
  };
  const auto mistake = [] { throw UserError("rows of 3 values"); };
  const auto failure = [] { throw std::out_of_range("index 7"); };
  for (const auto& [hook, found] : std::vector<std::pair<std::function<void()>, std::string>>{
           {mistake, "mistake: model: rows of 3 values | model | rows of 3 values"},
           {failure, "failure: model: step() threw: index 7 | model | step() threw: index 7"},
           {[] { throw 42; },
            "failure: model: step() threw: something that is not a std::exception | model | step() threw: something "
            "that is not a std::exception"},
           {[] { TORCH_CHECK(false, "shapes differ"); },  // without its trace
            "failure: model: step() threw: shapes differ | model | step() threw: shapes differ"},
           {inner(mistake), "mistake: objective: rows of 3 values | objective | rows of 3 values"},
           {inner(failure), "failure: objective: loss() threw: index 7 | objective | loss() threw: index 7"}}) {
    EXPECT_EQ(failure_of({"model", "step"}, hook), found);
    EXPECT_EQ(current_op, nullptr) << "a hook that threw is left";
  }
}

TEST(PluginCall, WhatIsNotThePluginsPassesThrough) {
  const auto call = [](const auto& error) { in_plugin({"model", "step"}, [&] { throw error; }); };
  EXPECT_THROW(call(CommunicationError("lost")), CommunicationError);
  EXPECT_THROW(call(std::bad_alloc()), std::bad_alloc);
  const auto out_of_memory = [] { TORCH_CHECK_WITH(OutOfMemoryError, false, "out of memory"); };
  EXPECT_THROW(in_plugin({"model", "step"}, out_of_memory), c10::OutOfMemoryError);
}

TEST(PluginCall, EachThreadKnowsItsOwnHook) {
  EXPECT_EQ(current_op, nullptr);
  in_plugin({"model", "step"}, [] {
    EXPECT_STREQ(current_op->name, "step");
    std::thread([] { EXPECT_EQ(current_op, nullptr); }).join();
    in_plugin({"dataset", "get"}, [] { EXPECT_STREQ(current_op->section, "dataset"); });
    EXPECT_STREQ(current_op->section, "model");
  });
  EXPECT_EQ(current_op, nullptr);
}

}  // namespace
}  // namespace ddprun
