// SPDX-License-Identifier: MIT
#include "data_process.h"

#include <ddprun/error.h>

#include <strict_json.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <thread>

namespace ddprun::python {
namespace {

using Json = nlohmann::json;

constexpr int kChannel = 3, kMemory = 4;  // the descriptors of the process
constexpr uint32_t kLargestAnswer = uint32_t{1} << 26;

[[noreturn]] void throw_errno(const char* what) {
  throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

// The file actions of a start.
class Actions {
 public:
  Actions() { posix_spawn_file_actions_init(&actions_); }
  ~Actions() { posix_spawn_file_actions_destroy(&actions_); }
  Actions(const Actions&) = delete;
  Actions& operator=(const Actions&) = delete;
  posix_spawn_file_actions_t* get() { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

}  // namespace

DataProcess::DataProcess(const ProcessPlan& plan) : plan_(plan) {
  try {
    start();
    send({{"do", "open"},
          {"file", plan.file.string()},
          {"class", plan.class_name},
          {"splits", plan.splits},
          {"arguments", plan.arguments}});
  } catch (...) {
    end();
    throw;
  }
}

DataProcess::~DataProcess() { end(); }

void DataProcess::end() noexcept {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (mapped_) ::munmap(mapped_, mapped_bytes_);
  if (channel_ >= 0) ::close(channel_);
  if (memory_fd_ >= 0) ::close(memory_fd_);
}

void DataProcess::start() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) throw_errno("socketpair");
  channel_ = ends[0];
  // Descriptors above those of the process, so that none of them is overwritten before it is copied.
  const int theirs = ::fcntl(ends[1], F_DUPFD_CLOEXEC, 10);
  ::close(ends[1]);
  const int memory = ::memfd_create("ddprun_samples", MFD_CLOEXEC);
  memory_fd_ = memory < 0 ? -1 : ::fcntl(memory, F_DUPFD_CLOEXEC, 10);
  if (memory >= 0) ::close(memory);
  if (theirs < 0 || memory_fd_ < 0) throw_errno("the channel of a Python process");
  Actions actions;
  posix_spawn_file_actions_adddup2(actions.get(), STDERR_FILENO, STDOUT_FILENO);  // what it prints goes into the log
  posix_spawn_file_actions_adddup2(actions.get(), theirs, kChannel);
  posix_spawn_file_actions_adddup2(actions.get(), memory_fd_, kMemory);
  std::string python = plan_.python, unbuffered = "-u", flag = "-c", text = kServeText;
  const std::array<char*, 5> words{python.data(), unbuffered.data(), flag.data(), text.data(), nullptr};
  const int error = ::posix_spawnp(&pid_, python.c_str(), actions.get(), nullptr, words.data(), environ);
  ::close(theirs);
  if (error == 0) return;
  pid_ = -1;
  throw UserError(plan_.python + ": cannot be started: " + std::strerror(error) +
                  "; dataset.python names the Python that makes the samples");
}

void DataProcess::send(const Json& request) {
  const auto text = request.dump();
  const auto length = static_cast<uint32_t>(text.size());
  const std::string message = std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
  fetching_ = request["do"] == "fetch";
  for (size_t sent = 0; sent < message.size();) {
    const auto done = ::send(channel_, message.data() + sent, message.size() - sent, MSG_NOSIGNAL);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) ended();
    sent += static_cast<size_t>(done);
  }
}

Json DataProcess::receive() {
  uint32_t length = 0;
  read(&length, sizeof length);
  if (length > kLargestAnswer) fail("its process sends what is no answer: does it write to descriptor 3?");
  std::string text(length, '\0');
  read(text.data(), text.size());
  Json answer;
  try {
    answer = parse_strict_json(text);
  } catch (const std::exception&) {
  }
  if (!answer.is_object()) fail("its process sends what is no answer: does it write to descriptor 3?");
  if (answer.contains("error")) fail(answer["error"].get<std::string>());
  return answer;
}

void DataProcess::read(void* target, size_t bytes) {
  using std::chrono::steady_clock;
  const auto end = steady_clock::now() + std::chrono::seconds(plan_.timeout_seconds);
  auto* next = static_cast<char*>(target);
  while (bytes > 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - steady_clock::now()).count();
    if (left <= 0) fail("no answer within " + std::to_string(plan_.timeout_seconds) + " s (dataset.timeout_seconds)");
    pollfd waiting{channel_, POLLIN, 0};
    if (::poll(&waiting, 1, static_cast<int>(std::min<int64_t>(left, 1000))) <= 0) continue;
    const auto got = ::recv(channel_, next, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) ended();
    next += got;
    bytes -= static_cast<size_t>(got);
  }
}

const uint8_t* DataProcess::memory(size_t bytes) {
  bytes += kHeaderBytes;
  if (bytes > mapped_bytes_) {
    if (mapped_) ::munmap(mapped_, mapped_bytes_);
    mapped_ = nullptr;
    if (::ftruncate(memory_fd_, static_cast<off_t>(bytes)) != 0) throw_errno("memory for samples");
    void* mapped = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, memory_fd_, 0);
    if (mapped == MAP_FAILED) throw_errno("memory for samples");
    mapped_ = static_cast<uint8_t*>(mapped);
    mapped_bytes_ = bytes;
  }
  return mapped_ + kHeaderBytes;
}

void DataProcess::fail(const std::string& flaw) const {
  throw UserError(plan_.file.string() + ": " + plan_.class_name + doing() + ": " + flaw);
}

// The channel is closed: the process has ended, or else has closed it and keeps running.
void DataProcess::ended() {
  using namespace std::chrono_literals;
  const auto pid = std::exchange(pid_, -1);
  int status = 0;
  for (const auto end = std::chrono::steady_clock::now() + 1s; ::waitpid(pid, &status, WNOHANG) == 0;) {
    if (std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(10ms);
      continue;
    }
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    fail("its process closed its connection to the run, descriptor 3");
  }
  fail(WIFSIGNALED(status) ? std::string("its process was killed by ") + ::strsignal(WTERMSIG(status))
                           : "its process ended with exit code " + std::to_string(WEXITSTATUS(status)));
}

// Returns " (sample 17 of train)" while samples are made.
std::string DataProcess::doing() const {
  if (!fetching_ || !mapped_) return "";
  std::array<int64_t, 2> sample{};
  std::memcpy(sample.data(), mapped_, sizeof sample);
  const auto split = static_cast<size_t>(sample[1]);
  if (split >= plan_.splits.size()) return "";
  return " (sample " + std::to_string(sample[0]) + " of " + plan_.splits[split] + ")";
}

}  // namespace ddprun::python
