// SPDX-License-Identifier: MIT
#include "base/communication_error.h"

#include <gmock/gmock.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

namespace ddprun {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

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

struct Told {
  const char *kind, *reason, *advice;
};

TEST(CauseOf, NcclsReasonIsKeptWithItsKindAndWhatToDo) {
  const std::vector<Told> all{
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
  for (const auto& told : all) {
    const auto cause = cause_of_nccl(told.kind, std::string("\nLast error:\n") + told.reason);
    const std::string kind = told.kind;
    EXPECT_THAT(cause, AllOf(HasSubstr(told.reason), HasSubstr(kind.substr(0, kind.find(':'))), HasSubstr(told.advice),
                             Not(HasSubstr("\n")), Not(HasSubstr("Exception raised from"))));
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
