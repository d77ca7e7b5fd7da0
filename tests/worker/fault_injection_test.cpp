// SPDX-License-Identifier: MIT
#include "worker/fault_injection.h"

#include "support/toy.h"
#include "support/toy_run.h"

#include <ddprun/error.h>

#include <gtest/gtest.h>
#include <torch/nn/utils/convert_parameters.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <thread>

namespace ddprun {
namespace {

using testing::ToyModel;

class FaultTest : public ::testing::Test {
 protected:
  ~FaultTest() override {
    for (const char* name : {"DDPRUN_FAULT", "DDPRUN_GATE"}) ::unsetenv(name);
  }

  ReachPoint fault(const char* text, int rank = 0, int attempt = 0) {
    ::setenv("DDPRUN_FAULT", text, 1);
    return fault_from_environment(
        rank, attempt, [this]() -> Model& { return model_; }, [this] { return stopping_.load(); });
  }

  // Whether the gradients of one more step have NaN.
  bool spoilt() {
    model_.zero_grad();
    model_.forward(torch::ones({2, 8})).sum().backward();
    return std::isnan(model_.parameters().front().grad().sum().item<float>());
  }

  ToyModel model_;
  std::atomic<bool> stopping_ = false;
};

// Two ends of a TCP connection.
struct Connection {
  Connection() {
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    socklen_t size = sizeof address;
    ::bind(listener, reinterpret_cast<sockaddr*>(&address), size);
    ::listen(listener, 1);
    ::getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
    mine = ::socket(AF_INET, SOCK_STREAM, 0);
    ::connect(mine, reinterpret_cast<sockaddr*>(&address), size);
    other = ::accept(listener, nullptr, nullptr);
    ::close(listener);
  }
  ~Connection() {
    ::close(mine);
    ::close(other);
  }
  int mine = -1, other = -1;
};

TEST_F(FaultTest, StrikesAtItsPointAndStepAlone) {
  const auto reach = fault("throw:loading_data:4:1", 1);
  EXPECT_NO_THROW(reach("loading data", 3));
  EXPECT_NO_THROW(reach("computing", 4));
  EXPECT_THROW(reach("loading data", 4), std::runtime_error);
}

TEST_F(FaultTest, OtherRanksAndAttemptsHaveNone) {
  EXPECT_FALSE(fault(""));
  EXPECT_FALSE(fault("throw:computing:4:1"));
  EXPECT_FALSE(fault("throw:computing:4", 0, 1));
  EXPECT_TRUE(fault("throw:computing:4:1:2", 1, 2));
}

TEST_F(FaultTest, ATextOfAnotherFormIsRefused) {
  for (const char* text :
       {"throw", "throw:computing", "burn:computing:4", "throw:computing:4:1:2:3", "throw:computing:x"})
    EXPECT_THROW(fault(text), UserError) << text;
}

TEST_F(FaultTest, OneStepHasNanAmongItsGradients) {
  model_.prepare({.sample_shape = {8}, .classes = 3});
  const auto reach = fault("nan:computing:4");
  reach("computing", 3);
  EXPECT_FALSE(spoilt());
  reach("computing", 4);
  EXPECT_TRUE(spoilt());
  reach("computing", 4);
  EXPECT_FALSE(spoilt());
}

TEST_F(FaultTest, OneBitOfTheWeightsChanges) {
  model_.prepare({.sample_shape = {8}, .classes = 3});
  const auto weights = [this] { return torch::nn::utils::parameters_to_vector(model_.parameters()).clone(); };
  const auto before = weights();
  const auto reach = fault("corrupt:computing:4");
  reach("computing", 3);
  EXPECT_TRUE(weights().equal(before));
  reach("computing", 4);
  const auto changed = weights().view(at::kInt).bitwise_xor(before.view(at::kInt));
  EXPECT_EQ(changed.sum().item<int64_t>(), 1 << 16);
  EXPECT_EQ(changed.count_nonzero().item<int64_t>(), 1);
}

TEST_F(FaultTest, ACutEndsBothDirections) {
  const Connection connection;
  fault("cut:computing:4")("computing", 4);
  char byte = 0;
  EXPECT_EQ(::recv(connection.other, &byte, 1, 0), 0);
  EXPECT_EQ(::send(connection.mine, &byte, 1, MSG_NOSIGNAL), -1);
}

TEST_F(FaultTest, AGateHoldsUntilItsFileIsGoneOrTheRunIsToStop) {
  EXPECT_THROW(fault("wait:computing:4"), UserError);
  const testing::TempFolder folder;
  const auto gate = folder.path() / "gate";
  ::setenv("DDPRUN_GATE", gate.c_str(), 1);
  for (const std::function<void()>& open : {std::function<void()>([&] { std::filesystem::remove(gate); }),
                                            std::function<void()>([&] { stopping_ = true; })}) {
    std::atomic<bool> opened = false;
    std::thread opener([&] {
      while (!std::filesystem::exists(gate)) std::this_thread::yield();
      opened = true;
      open();
    });
    fault("wait:computing:4")("computing", 4);
    EXPECT_TRUE(opened);
    opener.join();
  }
}

}  // namespace
}  // namespace ddprun
