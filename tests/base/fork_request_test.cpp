// SPDX-License-Identifier: MIT
#include "base/fork_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
