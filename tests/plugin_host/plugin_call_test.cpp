// SPDX-License-Identifier: MIT
#include "plugin_host/plugin_call.h"

#include "base/communication_error.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <new>
#include <thread>

namespace ddprun {
namespace {

template <class Error>
[[noreturn]] void call_that_throws(const Error& error) {
  in_plugin({"model", "step"}, [&] { throw error; });
  throw std::logic_error("nothing was thrown");
}

TEST(PluginCall, ReturnsWhatTheHookReturns) {
  int value = 3;
  EXPECT_EQ(in_plugin({"model", "step"}, [&] { return value; }), 3);
  int& same = in_plugin({"model", "step"}, [&]() -> int& { return value; });
  EXPECT_EQ(&same, &value);
}

TEST(PluginCall, AMistakeStaysAMistake) {
  try {
    call_that_throws(UserError("rows of 3 values"));
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "model: rows of 3 values");
    const auto& from = dynamic_cast<const FromPlugin&>(error);
    EXPECT_EQ(from.section, "model");
    EXPECT_EQ(from.problem, "rows of 3 values");
  }
}

TEST(PluginCall, AnyOtherErrorNamesTheHook) {
  EXPECT_THROW(
      try { call_that_throws(std::out_of_range("index 7")); } catch (const PluginFailure& error) {
        EXPECT_STREQ(error.what(), "model: step() threw: index 7");
        throw;
      },
      PluginFailure);
  EXPECT_THROW(
      try { call_that_throws(42); } catch (const PluginFailure& error) {
        EXPECT_EQ(error.problem, "step() threw: something that is not a std::exception");
        throw;
      },
      PluginFailure);
}

TEST(PluginCall, AnErrorOfLibTorchComesWithoutItsTrace) {
  EXPECT_THROW(
      try {
        in_plugin({"model", "forward"}, [] { TORCH_CHECK(false, "shapes differ"); });
      } catch (const PluginFailure& error) {
        EXPECT_EQ(error.problem, "forward() threw: shapes differ");
        throw;
      },
      PluginFailure);
}

TEST(PluginCall, WhatIsNotThePluginsPassesThrough) {
  EXPECT_THROW(call_that_throws(CommunicationError("lost")), CommunicationError);
  EXPECT_THROW(call_that_throws(std::bad_alloc()), std::bad_alloc);
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

TEST(PluginCall, AnErrorIsThatOfTheInnermostHook) {
  for (const bool of_user : {true, false}) {
    const auto inner = [of_user] {
      if (of_user) throw UserError("no such class");
      throw std::runtime_error("no such class");
    };
    const auto outer = [&] { in_plugin({"objective", "loss"}, inner); };
    try {
      in_plugin({"model", "step"}, outer);
      FAIL();
    } catch (const FromPlugin& error) {
      EXPECT_EQ(error.section, "objective");
      EXPECT_EQ(error.problem, of_user ? "no such class" : "loss() threw: no such class");
    }
  }
}

TEST(PluginCall, AHookThatThrewIsLeft) {
  EXPECT_THROW(call_that_throws(std::runtime_error("x")), PluginFailure);
  EXPECT_EQ(current_op, nullptr);
}

}  // namespace
}  // namespace ddprun
