// SPDX-License-Identifier: MIT
#include "base/communication_error.h"

#include <array>
#include <string_view>
#include <vector>

namespace ddprun {
namespace {

struct Advice {
  std::string_view reason;  // part of NCCL's
  const char* text;
};

constexpr std::array kAdvice{
    Advice{"Duplicate GPU",
           "Each worker needs a GPU of its own: check CUDA_VISIBLE_DEVICES. With launch.backend=gloo workers share "
           "GPUs"},
    Advice{"shared memory",
           "Give the container more of /dev/shm (docker run --shm-size=1g; in Kubernetes an emptyDir of "
           "medium Memory), or set NCCL_SHM_DISABLE=1, which is slower"},
    Advice{"interface found",
           "NCCL_SOCKET_IFNAME, or NCCL's configuration files, must name an interface of this machine"},
    Advice{"connect to ",
           "The nodes must reach each other at every port: check for a firewall, and let NCCL_SOCKET_IFNAME name the "
           "interface of the network between them"},
};

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
  return lines;
}

// Parses "NCCL error in: <place>, <general words>, NCCL version 2.28.9
// <kind>: <general words>
// Last error:
// <reason>", followed by a backtrace; or one line of c10d's own in place of kind and reason.
std::string cause_in_nccl(std::string_view text) {
  const auto lines = lines_of(text.substr(0, text.find("\nException raised from")));
  std::string_view kind, reason;
  for (size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].empty() || lines[i].starts_with("Last error:")) continue;
    (kind.empty() ? kind : reason) = lines[i];
  }
  if (kind.empty()) return std::string(lines.front());
  if (reason.empty()) return "NCCL: " + std::string(kind);
  std::string cause = "NCCL: " + std::string(reason) + " (" + std::string(kind.substr(0, kind.find(':'))) + ")";
  for (const auto& advice : kAdvice) {
    if (reason.find(advice.reason) != reason.npos) return cause + ". " + advice.text;
  }
  return cause;
}

}  // namespace

std::string cause_of(const std::exception& error) {
  const std::string_view text = error.what();
  const auto nccl = text.find("NCCL error in: ");
  return nccl == text.npos ? std::string(text.substr(0, text.find('\n'))) : cause_in_nccl(text.substr(nccl));
}

}  // namespace ddprun
