// SPDX-License-Identifier: MIT
#include "launch/signal_inbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <latch>
#include <memory>
#include <stdexcept>
#include <thread>

namespace ddprun {
namespace {

constexpr std::chrono::milliseconds kRound{10};

// A thread of a library, CUDA's driver say, that was started before and lets every signal through.
class ForeignThread {
 public:
  ForeignThread() {
    std::promise<void> runs;
    thread_ = std::thread([&runs, end = end_.get_future()] {
      sigset_t none;
      ::sigemptyset(&none);
      ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
      runs.set_value();
      // ThreadSanitizer calls a handler when the thread's own call has returned.
      while (end.wait_for(kRound) != std::future_status::ready) {
      }
    });
    runs.get_future().wait();
  }
  ~ForeignThread() {
    end_.set_value();
    thread_.join();
  }
  ForeignThread(const ForeignThread&) = delete;
  ForeignThread& operator=(const ForeignThread&) = delete;

 private:
  std::promise<void> end_;
  std::thread thread_;
};

// Returns whether the inbox gets it, waiting for it no longer than a test may take.
bool gets(SignalInbox& inbox, int signal) {
  pollfd polled{inbox.fd(), POLLIN, 0};
  while (::poll(&polled, 1, 60'000) == 1) {
    const auto taken = inbox.take();
    if (std::ranges::find(taken, signal) != taken.end()) return true;
  }
  return false;
}

class EachSignal : public ::testing::TestWithParam<int> {};

TEST_P(EachSignal, IsTakenThoughAnotherThreadLetsItThrough) {
  const ForeignThread foreign;
  SignalInbox inbox;
  for (int time = 0; time < 20; ++time) {
    ::kill(::getpid(), GetParam());
    ASSERT_TRUE(gets(inbox, GetParam())) << "the " << time << "th was lost";
  }
}

TEST_P(EachSignal, ActsAsBeforeWhenTheInboxIsGone) {
  struct sigaction before = {}, after = {};
  ::sigaction(GetParam(), nullptr, &before);
  { const SignalInbox inbox; }
  ::sigaction(GetParam(), nullptr, &after);
  EXPECT_EQ(before.sa_handler, after.sa_handler);
}

INSTANTIATE_TEST_SUITE_P(SignalInbox, EachSignal, ::testing::Values(SIGINT, SIGTERM, SIGUSR1, SIGHUP, SIGTSTP, SIGCHLD),
                         [](const auto& tested) { return signal_name(tested.param); });

TEST(Aside, AJobThatHangsKeepsNobodyWaitingAndWhatOneThrowsArrives) {
  const auto entered = std::make_shared<std::latch>(1), release = std::make_shared<std::latch>(1);
  {
    const auto hangs = aside([entered, release] { entered->count_down(), release->wait(); });
    entered->wait();
    EXPECT_EQ(hangs.wait_for(std::chrono::milliseconds(1)), std::future_status::timeout);
  }
  release->count_down();
  EXPECT_THROW(aside([] { throw std::runtime_error("no"); }).get(), std::runtime_error);
}

TEST(SignalInbox, OneWithinAnotherLeavesTheOuterItsSignals) {
  const ForeignThread foreign;
  SignalInbox outer;
  { const SignalInbox inner; }
  ::kill(::getpid(), SIGTERM);
  EXPECT_TRUE(gets(outer, SIGTERM));
}

}  // namespace
}  // namespace ddprun
