// SPDX-License-Identifier: MIT
// A follower whose first node is not the one that it was started for: no token proves who answers at the endpoint.
#include "agent/agent.h"
#include "agent/same_experiment.h"
#include "rendezvous/connection.h"
#include "rendezvous/control_link.h"
#include "rendezvous/server.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>

#include <poll.h>

#include <optional>
#include <thread>

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const Secret kOpen{.id = "run"};

// The launcher of the hostile node itself: it takes part until the follower has refused.
void lead(const RendezvousServer& server) {
  RemoteLink link(Connection::open({"127.0.0.1", server.port()}, kOpen, Connection::Clock::now() + seconds(60)), 60);
  link.join({.host = "evil", .device = "cpu", .first = true, .leader_key = server.leader_key()});
  for (;;) {
    pollfd polled{link.fd(), POLLIN, 0};
    ::poll(&polled, 1, static_cast<int>(link.ask_within().count()));
    for (const auto& order : link.take_orders()) {
      if (order.kind == Order::Kind::kAbort)
        link.ended({.workers = {{.rank = 0, .signal = 15, .killed_by_launcher = true}}});
      if (order.kind == Order::Kind::kFinish) return;
    }
  }
}

class HostileFirstNode : public FolderTest {
 protected:
  HostileFirstNode() {
    write(folder_ / "plugin.so", "never loaded");
    auto& experiment = checked_.experiment;
    experiment.model = {.plugin = "mlp", .path = "model"};
    experiment.dataset = {.plugin = "digits", .path = "dataset"};
    experiment.optimizer = {.plugin = "sgd", .path = "optimizer"};
    checked_.as_written = Value::map();
    experiment.run_dir = own();
    for (const auto* choice : plugin_choices(experiment))
      checked_.plugins.push_back({choice->path, choice->plugin, folder_ / "plugin.so"});
  }

  // Expects that this machine's launcher refuses, in these words. It has no dataset: preparing one would crash.
  void expect_refusal(const Order& forged, const std::string& words) {
    RendezvousServer server(
        {.listen = {"127.0.0.1", 0}, .secret = kOpen, .coordinator = {.min_nodes = 2, .max_nodes = 2}},
        [&](int, int) { return forged; }, [](bool, const std::string&) {});
    NodeSetup setup{.placement = {.engine = Engine::kFlags, .min_nodes = 2, .max_nodes = 2, .node_rank = 1},
                    .config = checked_.experiment.launch,
                    .host = "follower",
                    .endpoint = {"127.0.0.1", server.port()},
                    .address = "127.0.0.1",
                    .secret = kOpen};
    setup.launch.workers = 1;
    setup.launch.device = Device::kCpu;
    std::jthread leader([&] { lead(server); });
    ::testing::internal::CaptureStderr();
    const int code = run_agent(setup, {.words = nothing_, .overrides = nothing_, .checked = checked_, .early = early_});
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr(words));
    EXPECT_EQ(code, kExitUsage);
    EXPECT_FALSE(fs::exists(own())) << "it has begun";
  }

  fs::path own() const { return folder_ / "run"; }

  CheckedExperiment checked_;
  const std::vector<std::string> nothing_;
  std::optional<EarlySignals> early_;
};

TEST_F(HostileFirstNode, AnotherExperimentIsRefused) {
  auto forged = common_part(checked_);
  forged["model.plugin"] = "evil";
  expect_refusal({.attempt = {.run_dir = own()}, .experiment = forged}, "model.plugin: evil there, mlp here");
}

TEST_F(HostileFirstNode, AnotherFolderIsRefusedAndNotMade) {
  const auto elsewhere = folder_ / "home/.ssh";
  expect_refusal({.attempt = {.run_dir = elsewhere}, .experiment = common_part(checked_)},
                 "says that the run's folder is " + elsewhere.string());
  EXPECT_FALSE(fs::exists(folder_ / "home"));
}

TEST_F(HostileFirstNode, AForeignCheckpointIsNotOpened) {
  const auto forged = folder_ / "forged/step_00000001";
  expect_refusal({.attempt = {.run_dir = own(), .checkpoint = forged}, .experiment = common_part(checked_)},
                 "the run resumes from " + forged.string());
}

}  // namespace
}  // namespace ddprun
