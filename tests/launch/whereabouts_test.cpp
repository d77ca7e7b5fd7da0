// SPDX-License-Identifier: MIT
#include "launch/whereabouts.h"

#include "support/temporary_folder.h"

#include <gtest/gtest.h>

#include <poll.h>
#include <unistd.h>

#include <csignal>

namespace ddprun {
namespace {

class WhereaboutsTest : public FolderTest {
 protected:
  std::optional<Whereabouts> read_back(const std::string& text) const {
    write(folder_ / "whereabouts", text);
    return read_whereabouts(folder_ / "whereabouts");
  }
};

volatile std::sig_atomic_t asked = 0;

TEST_F(WhereaboutsTest, OnlyWhoCanAnswerIsAsked) {
  std::signal(SIGUSR2, SIG_DFL);
  EXPECT_FALSE(ask_whereabouts(::getpid()));  // it would have killed this process
  std::signal(SIGUSR2, [](int) { asked = 1; });
  EXPECT_TRUE(ask_whereabouts(::getpid()));
  ::poll(nullptr, 0, 0);  // ThreadSanitizer keeps signals back until a call that may wait
  EXPECT_EQ(asked, 1);
  std::signal(SIGUSR2, SIG_DFL);
}

TEST_F(WhereaboutsTest, AHookACollectiveOrNeither) {
  const auto hook = read_back("model\nstep\n");
  ASSERT_TRUE(hook);
  EXPECT_EQ(hook->section, "model");
  EXPECT_EQ(hook->name, "step");
  EXPECT_FALSE(hook->waits());
  EXPECT_TRUE(read_back("\nall-reduce\n")->waits());
  EXPECT_FALSE(read_back("\n\n")->waits());
}

TEST_F(WhereaboutsTest, NoAnswerIsNothing) {
  EXPECT_FALSE(read_whereabouts("/dev/null/whereabouts"));
  EXPECT_FALSE(read_back(""));
}

}  // namespace
}  // namespace ddprun
