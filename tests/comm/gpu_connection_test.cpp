// SPDX-License-Identifier: MIT
#include "comm/gpu_connection.h"

#include "support/error_of.h"
#include "support/idle_backend.h"
#include "support/ranks.h"

#include <atomic>
#include <future>

namespace ddprun {
namespace {

using testing::IdleBackend;
using testing::on_ranks;

GpuUse use(const std::string& machine, const std::string& gpu, const std::string& visible = "") {
  return {.machine = machine, .host = "node1", .gpu = gpu, .description = "NVIDIA H200, 139 GiB", .visible = visible};
}

TEST(GpuConnection, TwoRanksWithOneGpuAreRefusedWithTheVariableThatShowsIt) {
  EXPECT_TRUE(
      says(error_of([] { require_own_gpus({use("m", "PCI 1", "7"), use("m", "PCI 2"), use("m", "PCI 1", "7")}); }),
           "ranks 0,2 on node1 ... NVIDIA H200, 139 GiB, PCI 1 ... CUDA_VISIBLE_DEVICES=7 ... launch.backend=gloo"));
  EXPECT_NO_THROW(require_own_gpus({use("a", "PCI 1"), use("b", "PCI 1"), use("a", ""), use("a", "")}))
      << "machines that NCCL knows apart may have GPUs at one place";
}

TEST(GpuConnection, AUseIsReadAsItIsWritten) {
  const auto read = gpu_use_of(to_text(use("m", "PCI 1", "0,1")));
  EXPECT_EQ(to_text(read), to_text(use("m", "PCI 1", "0,1")));
  EXPECT_EQ(read.visible, "0,1");
}

TEST(GpuConnection, NcclsIdOfAMachineIsTakenForIt) {
  const auto alike = gpu_use("PCI 1", "").machine;
  EXPECT_EQ(gpu_use("PCI 1", "").machine, alike);
  setenv("NCCL_HOSTID", "another", /*overwrite=*/1);
  EXPECT_NE(gpu_use("PCI 1", "").machine, alike);
  unsetenv("NCCL_HOSTID");
}

TEST(GpuConnection, NothingIsConnectedBeforeAllHaveAGpuOfTheirOwn) {
  std::atomic<int> connected = 0;
  const auto connect = [&](const std::vector<std::string>& gpus) {
    on_ranks(
        2, [](Communicator& ranks) { ranks.connect_gpus(); }, 60,
        [&](int64_t rank) {
          return std::make_shared<IdleBackend>(gpus[rank], IdleBackend::Calls{.connecting = [&] { ++connected; }});
        });
  };
  EXPECT_TRUE(says(error_of([&] { connect({"PCI 1", "PCI 1"}); }), "ranks 0-1"));
  EXPECT_EQ(connected, 0);
  connect({"PCI 1", "PCI 2"});
  EXPECT_EQ(connected, 2);
}

TEST(GpuConnection, OneThatNeverComesIsWarnedOfAndThenAnErrorThatSaysWhatToDo) {
  std::promise<void> end;
  const std::vector<std::string> said{"127.0.0.1 (lo)", "NCCL_SOCKET_IFNAME", "NCCL_DEBUG=INFO"};
  ::testing::internal::CaptureStderr();
  const auto text = error_of<CommunicationError>([&] {
    connect_within({.address = "127.0.0.1", .warn_seconds = 0, .timeout_seconds = 0.001},
                   [over = end.get_future().share()] { over.wait(); });
  });
  end.set_value();
  EXPECT_TRUE(says(text, "launch.timeout_seconds"));
  const auto warned = ::testing::internal::GetCapturedStderr();
  for (const auto& words : said) EXPECT_TRUE(says(text, words) && says(warned, words)) << words;
}

TEST(GpuConnection, WhatItThrowsIsACommunicationErrorWithItsReason) {
  const auto text = error_of<CommunicationError>([] {
    on_ranks(
        2, [](Communicator& ranks) { ranks.connect_gpus(); }, 60,
        [](int64_t rank) {
          return std::make_shared<IdleBackend>(std::to_string(rank), IdleBackend::Calls{.connecting = [] {
                                                 throw std::runtime_error("no way\nthe calls");
                                               }});
        });
  });
  EXPECT_TRUE(text.ends_with("failed: no way")) << text;
}

// ProcessGroupNCCL's destructor warns and aborts what other ranks may still wait for.
TEST(GpuConnection, NcclsGroupIsNeverDestroyed) {
  std::atomic<int> gone = 0;
  on_ranks(
      2, [](Communicator&) {}, 60,
      [&](int64_t rank) {
        return std::make_shared<IdleBackend>(std::to_string(rank),
                                             IdleBackend::Calls{.group_is_gone = [&] { ++gone; }});
      });
  EXPECT_EQ(gone, 0);
}

TEST(GpuConnection, NcclTimesOutOnlyWhereTheLauncherDoesNotNoticeAHangFirst) {
  EXPECT_EQ(gpu_timeout_seconds(1800, 600), 24 * 60 * 60);
  EXPECT_EQ(gpu_timeout_seconds(1e6, 600), 1e6);
  EXPECT_EQ(gpu_timeout_seconds(60, 600), 60);
  EXPECT_EQ(gpu_timeout_seconds(1800, 0), 1800);
  std::atomic<int> days = 0;
  on_ranks(
      2, [](Communicator& ranks) { ranks.leave_hangs_to_launcher(30); }, 60,
      [&](int64_t rank) {
        return std::make_shared<IdleBackend>(std::to_string(rank), IdleBackend::Calls{.timing_out = [&](auto time) {
                                               days += time == std::chrono::hours(24) ? 1 : 0;
                                             }});
      });
  EXPECT_EQ(days, 2);
}

}  // namespace
}  // namespace ddprun
