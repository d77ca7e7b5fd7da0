// SPDX-License-Identifier: MIT
#include "comm/communicator.h"

#include "base/communication_error.h"
#include "support/error_of.h"
#include "support/ranks.h"
#include "support/temporary_folder.h"

#include <ATen/record_function.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/types.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <thread>

namespace ddprun {
namespace {

using testing::on_ranks;

TEST(Communicator, SumsBroadcastsAndGathers) {
  on_ranks(3, [](Communicator& ranks) {
    const auto rank = ranks.world().rank;
    auto values = torch::tensor({static_cast<double>(rank), 1.0}, at::kDouble);
    ranks.sum(values);
    EXPECT_TRUE(values.eq(3).all().item<bool>());
    std::vector<at::Tensor> tensors{torch::full({5}, rank), torch::full({2, 2}, 10.0F * rank)};
    ranks.broadcast(tensors);
    for (const auto& tensor : tensors) EXPECT_TRUE(tensor.eq(0).all().item<bool>());
    const auto mine = rank == 1 ? std::string() : "rank " + std::to_string(rank);
    EXPECT_EQ(ranks.gather_texts(mine), (std::vector<std::string>{"rank 0", "", "rank 2"}));
    for (const std::string text : {"rank 0", ""}) EXPECT_EQ(ranks.broadcast_text(rank == 0 ? text : "another"), text);
    auto pending = ranks.start_sum(torch::ones({3}));
    auto other = torch::ones({1});
    ranks.sum(other);
    EXPECT_EQ(pending.take().sum().item<float>(), 9.0F);
    EXPECT_EQ(other.item<float>(), 3.0F);
  });
}

TEST(Communicator, ASumUnderWayIsNotPartOfAProfileWhichMayEndBefore) {
  static std::atomic<int> seen = 0;
  on_ranks(2, [](Communicator& ranks) {
    const auto count = [](const at::RecordFunction&) {
      ++seen;
      return std::unique_ptr<at::ObserverContext>();
    };
    const auto observer =
        at::addThreadLocalCallback(at::RecordFunctionCallback(count).scopes({at::RecordScope::USER_SCOPE}));
    ranks.start_sum(torch::ones({1})).take();
    at::removeCallback(observer);
  });
  EXPECT_EQ(seen, 0);
}

TEST(Communicator, ABroadcastOfAnyRankReachesAll) {
  for (const int64_t size : {2, 3}) {
    on_ranks(size, [size](Communicator& ranks) {
      std::vector<PendingTensor> pending;
      for (int64_t i = 0; i < 6; ++i)
        pending.push_back(ranks.start_broadcast(torch::full({5}, 10.0 * i + ranks.world().rank), i % size));
      for (int64_t i = 5; i >= 0; --i)
        EXPECT_TRUE(pending[static_cast<size_t>(i)].take().eq(10.0 * i + i % size).all().item<bool>()) << size;
    });
  }
}

TEST(Communicator, SendsTensorsInTheirOrder) {
  on_ranks(3, [](Communicator& ranks) {
    const auto rank = ranks.world().rank;
    if (rank > 0)
      return ranks.send({torch::full({3}, 1.0 * rank), torch::empty({0}), torch::full({1}, 10.0 * rank)}, 0);
    for (const int64_t from : {2, 1}) {
      std::vector<at::Tensor> received{torch::zeros({3}), torch::empty({0}), torch::zeros({1})};
      ranks.receive(received, from);
      EXPECT_TRUE(received[0].eq(from).all().item<bool>());
      EXPECT_EQ(received[2].item<float>(), static_cast<float>(10 * from));
    }
  });
}

int64_t open_sockets() {
  return std::ranges::count_if(std::filesystem::directory_iterator("/proc/self/fd"), [](const auto& entry) {
    std::error_code closed;
    return std::filesystem::read_symlink(entry.path(), closed).string().starts_with("socket:");
  });
}

TEST(Communicator, ARankIsConnectedToItsNeighboursNotToAll) {
  constexpr int64_t kRanks = 24;
  on_ranks(kRanks, [](Communicator& ranks) {
    if (ranks.world().rank == 0) {
      EXPECT_LT(open_sockets(), 6 * kRanks);
    }
    ranks.barrier();
  });
}

TEST(Communicator, AloneNeedsNoStoreAndChangesNothing) {
  Communicator alone({});
  auto values = torch::ones({2});
  alone.sum(values);
  alone.barrier();
  EXPECT_EQ(values.sum().item<float>(), 2.0F);
  EXPECT_EQ(alone.gather_texts("me"), std::vector<std::string>{"me"});
  EXPECT_EQ(alone.broadcast_text("me"), "me");
  EXPECT_EQ(alone.group(), nullptr);
}

TEST(Communicator, ARankThatLeavesIsACommunicationErrorForTheOthers) {
  EXPECT_THROW(on_ranks(
                   2,
                   [](Communicator& ranks) {
                     if (ranks.world().rank == 1) return;
                     auto values = torch::ones({1});
                     ranks.sum(values);
                   },
                   /*timeout_seconds=*/10),
               CommunicationError);
}

// Runs `body(rank, exchange)` on threads that share the store.
void exchange_on_ranks(int64_t ranks, const std::function<c10::intrusive_ptr<c10d::Store>()>& open,
                       const std::function<void(int64_t, ErrorExchange&)>& body) {
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ErrorExchange exchange(open(), rank, ranks, 60);
      body(rank, exchange);
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(ErrorExchange, AllRanksGetTheSameError) {
  const TestFolder folder;
  const auto store = c10::make_intrusive<c10d::HashStore>();
  for (const auto& open : std::vector<std::function<c10::intrusive_ptr<c10d::Store>()>>{
           [&] { return store; },
           [&] { return c10::make_intrusive<c10d::FileStore>((folder / "store").string(), 4); }}) {
    std::vector<std::string> answers(4);
    exchange_on_ranks(4, open, [&](int64_t rank, ErrorExchange& exchange) {
      EXPECT_EQ(exchange.agree(""), "");
      answers[rank] = exchange.agree(rank % 2 == 1 ? "rank " + std::to_string(rank) : "");
      EXPECT_EQ(exchange.agree(""), "");
    });
    EXPECT_TRUE(answers[0] == "rank 1" || answers[0] == "rank 3") << answers[0];
    EXPECT_EQ(answers, std::vector<std::string>(4, answers[0]));
  }
}

TEST(ErrorExchange, TheFirstRankTakesWhatEachHasLeftAndTheStoreKeepsNoMoreThanTheLastMeeting) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  exchange_on_ranks(
      3, [&] { return store; },
      [&](int64_t rank, ErrorExchange& exchange) {
        for (int meeting = 0; meeting < 50; ++meeting) {
          exchange.leave(std::to_string(rank) + " at " + std::to_string(meeting));
          EXPECT_EQ(exchange.agree(""), "");
          for (int64_t from = 0; rank == 0 && from < 3; ++from)
            EXPECT_EQ(exchange.take(from), std::to_string(from) + " at " + std::to_string(meeting));
          EXPECT_EQ(exchange.agree(""), "");
        }
      });
  EXPECT_LE(store->getNumKeys(), 3);
}

TEST(ErrorExchange, ARankThatStaysAwayIsACommunicationError) {
  ErrorExchange exchange(c10::make_intrusive<c10d::HashStore>(), 0, 2, 0.05);
  EXPECT_THROW(exchange.agree(""), CommunicationError);
}

TEST(ErrorExchange, AloneNeedsNoStore) {
  ErrorExchange exchange(nullptr, 0, 1, 60);
  EXPECT_EQ(exchange.agree(""), "");
  EXPECT_EQ(exchange.agree("no space"), "no space");
}

// As C10D_NCCL_CHECK throws it: the text's form is NCCLUtils.hpp's, the rest is c10's.
std::string cause_of_nccl(const std::string& kind, const std::string& last_error) {
  try {
    const auto text = "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, " +
                      kind.substr(0, kind.find(':')) +
                      " (run with NCCL_DEBUG=INFO for details), NCCL version 2.28.9\n" + kind + last_error;
    TORCH_CHECK_WITH(DistBackendError, false, text);
  } catch (const std::exception& error) {
    return cause_of(error);
  }
  return "";
}

struct Cause {
  const char *kind, *reason, *advice;
};

TEST(CauseOf, NcclsReasonIsKeptWithItsKindAndWhatToDo) {
  const std::vector<Cause> all{
      {"ncclInvalidUsage: This usually reflects invalid usage of NCCL library.",
       "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 3b000", "CUDA_VISIBLE_DEVICES"},
      {"ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error. ",
       "Error while creating shared memory segment /dev/shm/nccl-nOmWZr (size 33030528), error: No space left on "
       "device (28)",
       "--shm-size"},
      {"ncclInvalidUsage: This usually reflects invalid usage of NCCL library.",
       "Bootstrap : no socket interface found", "NCCL_SOCKET_IFNAME"},
      {"ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
       "socketPollConnect: connect to 10.0.0.2<41235> returned Connection refused, exceeded error retry count after 35 "
       "attempts",
       "firewall"}};
  for (const auto& known : all) {
    const auto cause = cause_of_nccl(known.kind, std::string("\nLast error:\n") + known.reason);
    const std::string kind = known.kind;
    EXPECT_TRUE(says(cause, known.reason));
    EXPECT_TRUE(says(cause, kind.substr(0, kind.find(':'))));
    EXPECT_TRUE(says(cause, known.advice));
    for (const auto* never : {"\n", "Exception raised from"}) EXPECT_EQ(cause.find(never), cause.npos);
  }
}

TEST(CauseOf, NcclsKindStandsAloneWhereThereIsNoReason) {
  const std::string kind = "ncclInternalError: Internal check failed.";
  EXPECT_EQ(cause_of_nccl(kind, "\nLast error:\n"), "NCCL: " + kind);
  EXPECT_EQ(cause_of_nccl("the watchdog found a time-out", ""), "NCCL: the watchdog found a time-out");
}

TEST(CauseOf, OthersAreCutAfterTheirFirstLine) {
  EXPECT_EQ(cause_of(std::runtime_error("[gloo/transport/tcp/pair.cc:547] Connection closed by peer [::1]:40123\n"
                                        "Exception raised from f at g.cpp:1")),
            "[gloo/transport/tcp/pair.cc:547] Connection closed by peer [::1]:40123");
}

}  // namespace
}  // namespace ddprun
