// SPDX-License-Identifier: MIT
#include "base/program.h"

#include "base/clock.h"
#include "base/spawn.h"

#include <ddprun/error.h>
#include <ddprun/files.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <system_error>

namespace ddprun {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void throw_errno(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

// Returns a file in memory, so that nobody waits for the program to read it.
UniqueFd input_file(const std::string& text) {
  UniqueFd file(::memfd_create("ddprun", MFD_CLOEXEC));
  if (!file.open()) throw_errno("memfd_create");
  std::string_view left = text;
  if (!write_all(file.get(), left)) throw_errno("write");
  ::lseek(file.get(), 0, SEEK_SET);
  return file;
}

class Actions {
 public:
  Actions(const ProgramStreams& streams, ProgramGroup group) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_adddup2(&actions_, streams.input, STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions_, streams.output, STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions_, streams.errors, STDERR_FILENO);
    if (group == ProgramGroup::kOwnSession) ::posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1);
  }
  ~Actions() { ::posix_spawn_file_actions_destroy(&actions_); }
  Actions(const Actions&) = delete;
  Actions& operator=(const Actions&) = delete;

  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

class Attributes {
 public:
  explicit Attributes(ProgramGroup group) {
    ::posix_spawnattr_init(&attributes_);
    if (group == ProgramGroup::kOurs) return;
    sigset_t none, all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    const int flags = group == ProgramGroup::kOwn ? POSIX_SPAWN_SETPGROUP : POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF;
    ::posix_spawnattr_setflags(&attributes_, static_cast<short>(flags | POSIX_SPAWN_SETSIGMASK));
  }
  ~Attributes() { ::posix_spawnattr_destroy(&attributes_); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;

  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

// Reads to the end and returns true, or returns false at one of the limits.
bool read_all(int fd, const ProgramOptions& options, std::string& text) {
  const auto deadline = Clock::now() + seconds(options.seconds);
  char buffer[4096];
  while (text.size() <= options.most_bytes) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (options.seconds > 0 && left <= 0) return false;
    pollfd polled{fd, POLLIN, 0};
    ::poll(&polled, 1, options.seconds > 0 ? static_cast<int>(left) : -1);
    const auto got = ::read(fd, buffer, sizeof buffer);
    if (got == 0) return true;
    if (got > 0) text.append(buffer, static_cast<size_t>(got));
    if (got < 0 && errno != EAGAIN && errno != EINTR) return true;
  }
  text.resize(options.most_bytes);
  return false;
}

int exit_code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

}  // namespace

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw_errno("waitpid");
  }
  return exit_code_of(status);
}

std::optional<int> wait_until(pid_t child, std::chrono::steady_clock::time_point deadline) {
  constexpr int kRoundMs = 2;
  for (int status = 0;; ::poll(nullptr, 0, kRoundMs)) {
    if (::waitpid(child, &status, WNOHANG) != 0) return exit_code_of(status);
    if (Clock::now() >= deadline) return std::nullopt;
  }
}

ProgramEnd end_of_program(pid_t child, int output, const ProgramOptions& limits) {
  ProgramEnd end;
  const auto deadline = Clock::now() + seconds(limits.seconds);
  end.cut = !read_all(output, limits, end.output);
  if (!end.cut && limits.seconds > 0) {  // it may have closed its output and keep running
    if (const auto code = wait_until(child, deadline)) return end.exit_code = *code, end;
    end.cut = true;
  }
  if (end.cut) ::kill(::getpgid(child) == child ? -child : child, SIGKILL);
  end.exit_code = wait_for(child);
  return end;
}

pid_t start_program(const std::vector<std::string>& command, const ProgramStreams& streams, ProgramGroup group) {
  const Actions actions(streams, group);
  const Attributes attributes(group);
  std::vector<char*> words;
  for (const auto& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, words[0], actions.get(), attributes.get(), words.data(), environ);
  if (error == ENOENT) throw UserError("there is no program " + command[0] + " on PATH");
  if (error != 0) throw std::system_error(error, std::generic_category(), command[0]);
  return child;
}

ProgramEnd run_program(const std::vector<std::string>& command, const ProgramOptions& options) {
  const auto input = input_file(options.input);
  const UniqueFd nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  auto output = make_pipe();
  const auto child =
      start_program(command, {input.get(), output.write.get(), options.errors ? output.write.get() : nowhere.get()},
                    options.seconds > 0 ? ProgramGroup::kOwn : ProgramGroup::kOurs);
  output.write.reset();
  return end_of_program(child, output.read.get(), options);
}

std::string last_line(const std::string& text) {
  const auto end = text.find_last_not_of(" \n");
  if (end == std::string::npos) return "";
  const auto begin = text.rfind('\n', end);
  return text.substr(begin + 1, end - begin);  // npos + 1 is 0
}

bool has_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (::access(((folder.empty() ? "." : folder) + "/" + name).c_str(), X_OK) == 0) return true;
  }
  return false;
}

std::filesystem::path own_program() { return std::filesystem::read_symlink("/proc/self/exe"); }

std::filesystem::path own_library() {
  Dl_info info{};
  const bool known = ::dladdr(reinterpret_cast<void*>(&own_library), &info) != 0 && info.dli_fname != nullptr;
  return known ? std::filesystem::path(info.dli_fname) : own_program();
}

bool was_replaced() {
  if (!std::filesystem::exists(own_program())) return true;
  const auto end = std::filesystem::weakly_canonical(own_library()).string() + " (deleted)";
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);)
    if (line.ends_with(end)) return true;
  return false;
}

// The name is one that only the pretended libcudart.so exports.
bool gpus_are_pretended() { return ::dlsym(RTLD_DEFAULT, "pretend_shadow") != nullptr; }

}  // namespace ddprun
