// SPDX-License-Identifier: MIT
#include "submit/program.h"

#include <ddprun/error.h>

#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <sstream>
#include <system_error>

namespace ddprun {
namespace {

// A file in memory: nobody waits for who reads or writes at its other end.
class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("ddprun", MFD_CLOEXEC)) {
    if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "memfd_create");
  }
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  int fd() const { return fd_; }

  void write(const std::string& text) {
    for (size_t done = 0; done < text.size();) {
      const auto written = ::write(fd_, text.data() + done, text.size() - done);
      if (written < 0) throw std::system_error(errno, std::generic_category(), "write");
      done += static_cast<size_t>(written);
    }
    ::lseek(fd_, 0, SEEK_SET);
  }

  std::string read() {
    ::lseek(fd_, 0, SEEK_SET);
    std::string text;
    char buffer[4096];
    for (ssize_t count = 0; (count = ::read(fd_, buffer, sizeof buffer)) > 0;)
      text.append(buffer, static_cast<size_t>(count));
    return text;
  }

 private:
  int fd_;
};

class Actions {
 public:
  Actions(int input, int output) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_adddup2(&actions_, input, STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions_, output, STDERR_FILENO);
  }
  ~Actions() { ::posix_spawn_file_actions_destroy(&actions_); }
  Actions(const Actions&) = delete;
  Actions& operator=(const Actions&) = delete;

  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_;
};

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "waitpid");
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

ProgramEnd run_program(const std::vector<std::string>& command, const std::string& input) {
  MemoryFile in, out;
  in.write(input);
  const Actions actions(in.fd(), out.fd());
  std::vector<char*> words;
  for (const auto& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  pid_t child = 0;
  const int error = ::posix_spawnp(&child, words[0], actions.get(), nullptr, words.data(), environ);
  if (error == ENOENT) throw UserError("there is no program " + command[0] + " on PATH");
  if (error != 0) throw std::system_error(error, std::generic_category(), command[0]);
  const int exit_code = wait_for(child);
  return {exit_code, out.read()};
}

bool has_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (::access(((folder.empty() ? "." : folder) + "/" + name).c_str(), X_OK) == 0) return true;
  }
  return false;
}

}  // namespace ddprun
