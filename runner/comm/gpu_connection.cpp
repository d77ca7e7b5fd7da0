// SPDX-License-Identifier: MIT
#include "comm/gpu_connection.h"

#include "base/communication_error.h"
#include "base/line_folder.h"
#include "base/log.h"
#include "base/program.h"
#include "rendezvous/address.h"

#include <ddprun/error.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <future>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

namespace ddprun {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// Says where NCCL would hang, and how to find out more.
std::string probe_answer(const std::string& address) {
  const auto interface = interface_of(address), wanted = variable("NCCL_SOCKET_IFNAME");
  return log::text("This machine is ", address, interface.empty() ? "" : " (" + interface + ")",
                   " for the others. NCCL goes by ",
                   wanted.empty() ? "interfaces of its own choice, which NCCL_SOCKET_IFNAME=<name> overrules"
                                  : "NCCL_SOCKET_IFNAME=" + wanted,
                   "; a firewall must let all ports through between the nodes. NCCL_DEBUG=INFO shows what it does");
}

}  // namespace

// Identifies the machine as NCCL does: by NCCL_HOSTID, or by name and boot id.
GpuUse gpu_use(const std::string& identity, const std::string& description) {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  const auto id = variable("NCCL_HOSTID");
  return {.machine = id.empty() ? host_name() + " " + boot : id,
          .host = host_name(),
          .gpu = identity,
          .description = description,
          .visible = variable("CUDA_VISIBLE_DEVICES")};
}

std::string to_text(const GpuUse& use) {
  return use.machine + "\n" + use.host + "\n" + use.gpu + "\n" + use.description + "\n" + use.visible;
}

GpuUse gpu_use_of(const std::string& text) {
  std::istringstream lines(text);
  GpuUse use;
  for (auto* part : {&use.machine, &use.host, &use.gpu, &use.description, &use.visible}) std::getline(lines, *part);
  return use;
}

void require_own_gpus(const std::vector<GpuUse>& ranks) {
  std::map<std::pair<std::string, std::string>, std::set<int>> users;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    if (!ranks[rank].gpu.empty()) users[{ranks[rank].machine, ranks[rank].gpu}].insert(static_cast<int>(rank));
  }
  for (const auto& [gpu, same] : users) {
    if (same.size() < 2) continue;
    const auto& first = ranks[static_cast<size_t>(*same.begin())];
    const auto cause = first.visible.empty()
                           ? "Start one worker for each GPU"
                           : "CUDA_VISIBLE_DEVICES=" + first.visible +
                                 " shows them no other: unset it, or let it name as many GPUs as there are workers";
    throw UserError(log::text("launch.workers: ", name_ranks(same), " on ", first.host, " have the same GPU (",
                              first.description, ", ", first.gpu, "), but NCCL needs one for each. ", cause,
                              "; with launch.backend=gloo workers share GPUs"));
  }
}

void connect_within(const ConnectPatience& patience, const std::function<void()>& connect) {
  using std::chrono::duration;
  const auto promise = std::make_shared<std::promise<void>>();
  auto done = promise->get_future();
  std::thread thread([promise, connect] {
    try {
      connect();
      promise->set_value();
    } catch (...) {
      promise->set_exception(std::current_exception());
    }
  });
  const auto comes_within = [&done](double seconds) {
    return done.wait_for(duration<double>(seconds)) == std::future_status::ready;
  };
  const auto warn_seconds = std::min(patience.warn_seconds, patience.timeout_seconds);
  if (!comes_within(warn_seconds)) {
    log::warn(
        log::text("connecting the GPUs (NCCL) takes more than ", warn_seconds, " s. ", probe_answer(patience.address)));
    if (!comes_within(patience.timeout_seconds - warn_seconds)) {
      thread.detach();
      throw CommunicationError(log::text("NCCL has not connected after ", patience.timeout_seconds,
                                         " s (launch.timeout_seconds). ", probe_answer(patience.address)));
    }
  }
  thread.join();
  done.get();
}

}  // namespace ddprun
