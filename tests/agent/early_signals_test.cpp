// SPDX-License-Identifier: MIT
#include "agent/early_signals.h"

#include "launch/signal_inbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <iterator>
#include <optional>
#include <thread>
#include <vector>

namespace ddprun {
namespace {

// A thread that is started meanwhile, as CUDA's driver starts some when it is asked for the GPUs, lets the signals
// through ever after.
TEST(EarlySignals, WaitAfterwardsForAnInboxWhateverThreadsWereStartedMeanwhile) {
  std::optional<EarlySignals> early(std::in_place);
  std::promise<void> end;
  std::thread started([over = end.get_future()] { over.wait(); });
  early.reset();
  ::kill(::getpid(), SIGTERM);
  ::kill(::getpid(), SIGUSR1);
  std::vector<int> taken;
  SignalInbox inbox;
  pollfd polled{inbox.fd(), POLLIN, 0};
  while (taken.size() < 2 && ::poll(&polled, 1, 60'000) == 1)
    std::ranges::copy(inbox.take(), std::back_inserter(taken));
  EXPECT_THAT(taken, ::testing::UnorderedElementsAre(SIGTERM, SIGUSR1));
  end.set_value();
  started.join();
}

TEST(EarlySignals, EndTheProgramUnbegun) {
  EXPECT_EXIT(
      {
        const EarlySignals early;
        ::kill(::getpid(), SIGTERM);
      },
      ::testing::ExitedWithCode(75), "asked to stop before the run had started");
}

}  // namespace
}  // namespace ddprun
