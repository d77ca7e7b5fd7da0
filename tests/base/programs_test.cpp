// SPDX-License-Identifier: MIT
// Other programs, and what a fork server is asked for.
#include "base/fork_request.h"
#include "base/program.h"
#include "support/error_of.h"

#include <gmock/gmock.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>

namespace ddprun {
namespace {

using testing::ElementsAre;

TEST(Program, GivesBackWhatItPrintsOnBothStreamsAndHowItEnds) {
  const auto end = run_program({"sh", "-c", "echo out; echo err >&2; exit 3"});
  EXPECT_EQ(end.exit_code, 3);
  EXPECT_EQ(end.output, "out\nerr\n");
  EXPECT_EQ(run_program({"sh", "-c", "kill -9 $$"}).exit_code, 137);
}

TEST(Program, ReadsLongInputToItsEnd) {
  const std::string text(1'000'000, 'x');
  EXPECT_EQ(run_program({"cat"}, {.input = text}).output, text);
}

// As the launcher, which takes its signals from a descriptor; bash keeps what it is started with.
TEST(Program, EndsInItsTimeWithAllThatItHasStartedThoughSignalsAreBlocked) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const auto end = run_program({"sh", "-c", "sleep 1000 & sleep 1000"}, {.seconds = 0.1});
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  EXPECT_TRUE(end.cut);
  EXPECT_EQ(end.exit_code, 137);
}

TEST(Program, WhatPrintsWithoutEndIsCut) {
  const auto end = run_program({"yes"}, {.most_bytes = 1000});
  EXPECT_TRUE(end.cut);
  EXPECT_EQ(end.output.size(), 1000U);
}

TEST(Program, NamesTheOneThatIsNotThere) {
  EXPECT_FALSE(has_program("ddprun_another"));
  EXPECT_TRUE(has_program("sh"));
  EXPECT_EQ(error_of([] { run_program({"ddprun_another"}); }), "there is no program ddprun_another on PATH");
}

struct Sockets {
  Sockets() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) throw std::runtime_error("socketpair");
    asks = UniqueFd(ends[0]), serves = UniqueFd(ends[1]);
  }
  UniqueFd asks, serves;
};

const SpawnRequest kWorker{.command = {"/prefix/bin/ddprun", "worker"},
                           .environment = {"RANK=1", "EMPTY=", "WORDS=a b"},
                           .blocked = {SIGTERM, SIGUSR1},
                           .cores = {0, 3}};

UniqueFd request_file() { return write_fork_request(ForkKind::kFork, kOwnGroup, kWorker, {SIGHUP}); }

std::vector<std::string> texts(const std::vector<char*>& words) { return {words.begin(), words.end() - 1}; }

TEST(ForkRequest, ArrivesAsItWasSent) {
  const Sockets sockets;
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(send_fork_request(sockets.asks.get(), request_file(), {null.get(), null.get(), null.get()}));
  const auto request = receive_fork_request(sockets.serves.get());
  ASSERT_TRUE(request);
  EXPECT_EQ(request->kind, ForkKind::kFork);
  EXPECT_EQ(request->flags, kOwnGroup);
  EXPECT_EQ(texts(request->words), kWorker.command);
  EXPECT_EQ(texts(request->environment), kWorker.environment);
  EXPECT_EQ(request->words.back(), nullptr);
  EXPECT_STREQ(request->folder, "");
  EXPECT_EQ(request->cores, kWorker.cores);
  EXPECT_EQ(request->blocked, kWorker.blocked);
  EXPECT_THAT(request->ignored, ElementsAre(SIGHUP));
  ASSERT_EQ(request->streams.size(), 3U);
  EXPECT_EQ(::fcntl(request->streams[2].get(), F_GETFD), FD_CLOEXEC);
}

TEST(ForkRequest, IsRefusedWhereItIsCutOffOrItsNumbersLie) {
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const std::vector<int> streams{null.get(), null.get(), null.get()};
  struct stat whole {};
  ASSERT_EQ(::fstat(request_file().get(), &whole), 0);
  const Sockets sockets;
  const auto expect_refusal = [&](const UniqueFd& file, const std::string& what) {
    ASSERT_TRUE(send_fork_request(sockets.asks.get(), file, streams));
    EXPECT_THROW(receive_fork_request(sockets.serves.get()), std::exception) << what;
  };
  for (off_t size = 0; size < whole.st_size; ++size) {
    const auto file = request_file();
    ASSERT_EQ(::ftruncate(file.get(), size), 0);
    expect_refusal(file, "cut at " + std::to_string(size));
  }
  for (size_t number = 2; number < 7; ++number) {  // of words, variables, cores and signals
    const auto file = request_file();
    const uint32_t lie = ~0U;
    ASSERT_EQ(::pwrite(file.get(), &lie, sizeof lie, static_cast<off_t>(number * sizeof lie)), sizeof lie);
    expect_refusal(file, "number " + std::to_string(number));
  }
  ASSERT_TRUE(send_fork_request(sockets.asks.get(), request_file(), {null.get()}));
  EXPECT_THROW(receive_fork_request(sockets.serves.get()), std::exception) << "one stream";
}

TEST(ForkRequest, ComesToAnEndWithWhoAsks) {
  Sockets sockets;
  sockets.asks.reset();
  EXPECT_EQ(receive_fork_request(sockets.serves.get()), nullptr);
  EXPECT_FALSE(send_fork_answer(sockets.serves.get(), {.pid = 1}));
}

}  // namespace
}  // namespace ddprun
