// SPDX-License-Identifier: MIT
// The environment's variables, what is reported, and the faults that are ordered.
#include "pretend_gpu/engine.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <sstream>
#include <string_view>
#include <vector>

namespace pretend {
namespace {

[[noreturn]] void end(const std::string& text) {
  log(0, "%s", text.c_str());
  std::_Exit(1);
}

int64_t whole_number(const std::string& text, const std::string& of) {
  char* rest = nullptr;
  const int64_t value = std::strtoll(text.c_str(), &rest, 10);
  if (text.empty() || *rest != '\0') end(of + ": expected a whole number, found \"" + text + "\"");
  return value;
}

std::atomic<bool> asked{false};

// A program that runs on pretend GPUs and never asks for one would pass every test.
struct AtEnd {
  ~AtEnd() {
    if (!asked && setting("PROGRAM", int64_t{0}) == getpid())
      log(1, "this program has asked for no GPU; is its LibTorch built with CUDA?");
  }
};
const AtEnd at_end;

struct OrderedFault {
  std::string function, what;
  int64_t call;
};

std::vector<OrderedFault> read_orders() {
  std::vector<OrderedFault> orders;
  std::istringstream words(setting("FAIL", ""));
  for (std::string word; std::getline(words, word, ',');) {
    const auto first = word.find(':'), second = word.find(':', first + 1);
    if (second == std::string::npos) end("PRETEND_FAIL: expected FUNCTION:CALL:WHAT, found \"" + word + "\"");
    orders.push_back(
        {.function = word.substr(0, first),
         .what = word.substr(second + 1),
         .call = whole_number(word.substr(first + 1, second - first - 1), "PRETEND_FAIL, the call's number")});
  }
  return orders;
}

// Whether the faults are for this thread.
bool is_meant() {
  static const int64_t only_device = setting("FAIL_DEVICE", -1);
  static const auto only_thread = setting("FAIL_THREAD", "");
  if (only_device >= 0 && current_device() != only_device) return false;
  char name[16] = "";  // as much as the kernel keeps
  pthread_getname_np(pthread_self(), name, sizeof name);
  return std::string_view(name).starts_with(only_thread);
}

Order carried_out(const OrderedFault& order, int usual_error) {
  if (order.what == "hang") {
    for (;;) pause();
  }
  if (order.what == "kill") kill(getpid(), SIGKILL);
  if (order.what == "stall") return {.kind = Order::kStall};
  if (order.what == "late") return {.kind = Order::kLate, .error = usual_error};
  if (order.what == "error") return {.kind = Order::kError, .error = usual_error};
  return {.kind = Order::kError, .error = static_cast<int>(whole_number(order.what, "PRETEND_FAIL, what happens"))};
}

}  // namespace

std::string setting(const char* name, const char* otherwise) {
  const char* value = std::getenv((std::string("PRETEND_") + name).c_str());
  return value && *value ? value : otherwise;
}

int64_t setting(const char* name, int64_t otherwise) {
  const auto text = setting(name, "");
  return text.empty() ? otherwise : whole_number(text, std::string("PRETEND_") + name);
}

void log(int level, const char* format, ...) {
  static const int64_t wanted = std::atoll(setting("LOG", "1").c_str());
  if (level > wanted) return;
  char text[2000];
  va_list list;
  va_start(list, format);
  std::vsnprintf(text, sizeof text, format, list);
  va_end(list);
  std::fprintf(stderr, "pretend gpu [%d]: %s\n", getpid(), text);
}

void trace(const char* kind, const char* name, int device, const void* stream, size_t bytes) {
  static const int file = [] {
    const auto path = setting("TRACE", "");
    if (path.empty()) return -1;
    const int opened =
        open((path + "." + std::to_string(getpid())).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (opened < 0) end("PRETEND_TRACE: cannot write " + path);
    return opened;
  }();
  if (file < 0) return;
  char line[400];
  const int length = std::snprintf(line, sizeof line, "%s\t%.300s\t%d\t%p\t%zu\n", kind, name, device, stream, bytes);
  if (write(file, line, static_cast<size_t>(length)) != length) end("PRETEND_TRACE: the file cannot be written on");
}

Order ordered(const char* function, int usual_error) {
  asked = true;
  static const auto& orders = *new std::vector<OrderedFault>(read_orders());
  trace("call", function, current_device());
  if (orders.empty() || !is_meant()) return {};
  int64_t call = 0, of_all = 0;
  {
    static std::mutex mutex;
    static auto& calls = *new std::map<std::string, int64_t>;
    const std::scoped_lock lock(mutex);
    call = ++calls[function];
    of_all = ++calls["any"];
  }
  for (const auto& order : orders) {
    if (!(order.function == function && order.call == call) && !(order.function == "any" && order.call == of_all))
      continue;
    log(0, "%s, call %lld: %s as ordered", function, static_cast<long long>(call), order.what.c_str());
    return carried_out(order, usual_error);
  }
  return {};
}

}  // namespace pretend
