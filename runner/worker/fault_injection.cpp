// SPDX-License-Identifier: MIT
#include "worker/fault_injection.h"

#include "comm/replicate.h"

#include <ddprun/error.h>

#include <torch/types.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <regex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace ddprun {
namespace {

struct Victim {
  std::function<Model&()> model;
  std::function<bool()> stop_requested;
};

[[noreturn]] void hang() {
  for (;;) ::pause();
}

bool is_tcp(int descriptor) {
  int protocol = 0;
  socklen_t size = sizeof protocol;
  return ::getsockopt(descriptor, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) == 0 && protocol == IPPROTO_TCP;
}

bool is_connected(int descriptor) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  return ::getpeername(descriptor, reinterpret_cast<sockaddr*>(&peer), &size) == 0;
}

void cut_connections() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int descriptor = std::stoi(entry.path().filename());
    if (is_tcp(descriptor) && is_connected(descriptor)) ::shutdown(descriptor, SHUT_RDWR);
  }
}

void wait_a_little() { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }

// Waits while the file exists, which shows the test that this rank is held.
void wait_at_gate(const Victim& victim) {
  const std::filesystem::path gate = std::getenv("DDPRUN_GATE");
  std::ofstream{gate};
  while (std::filesystem::exists(gate) && !victim.stop_requested()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void spoil_next_gradient(Model& model) {
  const auto parameter = trainable_parameters(model).front().value;
  parameter.register_hook([spoils = std::make_shared<bool>(true)](const at::Tensor& gradient) {
    return std::exchange(*spoils, false) ? gradient * NAN : gradient;
  });
}

void corrupt_a_weight(Model& model) {
  const torch::NoGradGuard no_gradients;
  const auto weight = trainable_parameters(model).front().value.detach().flatten()[0];
  weight.view(at::kInt).bitwise_xor_(1 << 16);  // of its mantissa: no later step rounds it away
}

const std::map<std::string, void (*)(const Victim&)>& kinds() {
  static const std::map<std::string, void (*)(const Victim&)> kKinds{
      {"kill", [](const Victim&) { std::raise(SIGKILL); }},
      {"segv", [](const Victim&) { std::raise(SIGSEGV); }},
      {"abort", [](const Victim&) { std::raise(SIGABRT); }},
      {"stop", [](const Victim&) { std::raise(SIGSTOP); }},
      {"exit", [](const Victim&) { ::_exit(3); }},
      {"hang", [](const Victim&) { hang(); }},
      {"throw", [](const Victim&) { throw std::runtime_error("an injected fault"); }},
      {"cut", [](const Victim&) { cut_connections(); }},
      {"slow", [](const Victim&) { wait_a_little(); }},
      {"nan", [](const Victim& victim) { spoil_next_gradient(victim.model()); }},
      {"corrupt", [](const Victim& victim) { corrupt_a_weight(victim.model()); }},
      {"wait", wait_at_gate}};
  return kKinds;
}

bool same_point(std::string_view reached, std::string_view wanted) {
  return std::ranges::equal(reached, wanted, [](char a, char b) { return a == b || (a == ' ' && b == '_'); });
}

}  // namespace

ReachPoint fault_from_environment(int rank, int attempt, std::function<Model&()> model,
                                  std::function<bool()> stop_requested) {
  const char* written = std::getenv("DDPRUN_FAULT");
  if (written == nullptr || *written == '\0') return nullptr;
  static const std::regex kForm(R"(([a-z]+):([a-z_]+):(\d{1,9})(?::(\d{1,6})(?::(\d{1,6}))?)?)");
  std::cmatch parts;
  const bool fits = std::regex_match(written, parts, kForm) && kinds().contains(parts[1]);
  if (!fits)
    throw UserError(std::string("DDPRUN_FAULT: expected <kind>:<point>:<step>[:<rank>[:<attempt>]], found ") + written);
  if (parts[1] == "wait" && std::getenv("DDPRUN_GATE") == nullptr)
    throw UserError("DDPRUN_FAULT=wait: DDPRUN_GATE names no file to wait at");
  const auto number = [&parts](int part) { return parts[part].matched ? std::stoi(parts[part]) : 0; };
  if (rank != number(4) || attempt != number(5)) return nullptr;
  return [kind = parts[1].str(), wanted = parts[2].str(), at = number(3),
          victim = Victim{std::move(model), std::move(stop_requested)},
          struck = std::make_shared<std::atomic<bool>>(false)](std::string_view point, int64_t step) {
    const bool first = step == at && same_point(point, wanted) && !struck->exchange(true);
    if (first || (*struck && kind == "slow")) kinds().at(kind)(victim);
  };
}

}  // namespace ddprun
