// SPDX-License-Identifier: MIT
#include "train/fault.h"

#include "dist/replicate.h"

#include <ddprun/error.h>

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
#include <map>
#include <memory>
#include <regex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace ddprun {
namespace {

using GetModel = std::function<Model&()>;

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

void spoil_next_gradient(Model& model) {
  const auto parameter = trainable_parameters(model).front().value;
  parameter.register_hook([spoils = std::make_shared<bool>(true)](const at::Tensor& gradient) {
    return std::exchange(*spoils, false) ? gradient * NAN : gradient;
  });
}

const std::map<std::string, void (*)(const GetModel&)>& kinds() {
  static const std::map<std::string, void (*)(const GetModel&)> kinds{
      {"kill", [](const GetModel&) { std::raise(SIGKILL); }},
      {"segv", [](const GetModel&) { std::raise(SIGSEGV); }},
      {"abort", [](const GetModel&) { std::raise(SIGABRT); }},
      {"stop", [](const GetModel&) { std::raise(SIGSTOP); }},
      {"exit", [](const GetModel&) { ::_exit(3); }},
      {"hang", [](const GetModel&) { hang(); }},
      {"throw", [](const GetModel&) { throw std::runtime_error("an injected fault"); }},
      {"cut", [](const GetModel&) { cut_connections(); }},
      {"slow", [](const GetModel&) { wait_a_little(); }},
      {"nan", [](const GetModel& model) { spoil_next_gradient(model()); }}};
  return kinds;
}

bool same_point(std::string_view reached, std::string_view wanted) {
  return std::ranges::equal(reached, wanted, [](char a, char b) { return a == b || (a == ' ' && b == '_'); });
}

}  // namespace

ReachPoint fault_from_environment(int rank, int attempt, GetModel model) {
  const char* written = std::getenv("DDPRUN_FAULT");
  if (written == nullptr || *written == '\0') return nullptr;
  static const std::regex form(R"(([a-z]+):([a-z_]+):(\d{1,9})(?::(\d{1,6})(?::(\d{1,6}))?)?)");
  std::cmatch parts;
  const bool fits = std::regex_match(written, parts, form) && kinds().contains(parts[1]);
  if (!fits)
    throw UserError(std::string("DDPRUN_FAULT: expected <kind>:<point>:<step>[:<rank>[:<attempt>]], found ") + written);
  const auto number = [&parts](int part) { return parts[part].matched ? std::stoi(parts[part]) : 0; };
  if (rank != number(4) || attempt != number(5)) return nullptr;
  return [kind = parts[1].str(), wanted = parts[2].str(), at = number(3), model = std::move(model),
          struck = std::make_shared<std::atomic<bool>>(false)](std::string_view point, int64_t step) {
    const bool first = step == at && same_point(point, wanted) && !struck->exchange(true);
    if (first || (*struck && kind == "slow")) kinds().at(kind)(model);
  };
}

}  // namespace ddprun
