// SPDX-License-Identifier: MIT
#include "launch/orphans.h"

#include "base/run_files.h"

#include <ddprun/file_error.h>

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kGiveUpAfter{1};
constexpr int kRoundMs = 5;

// Returns nothing if the process has ended, or is somebody else's.
std::string content_of_process(const fs::path& file) try { return content_of(file); } catch (const FileError&) {
  return "";
}

// The two words behind the program's name, which may itself contain parentheses, are its state and its parent.
bool is_child(const fs::path& process) {
  const auto stat = content_of_process(process / "stat");
  const auto end = stat.rfind(')');
  return end != stat.npos && end + 4 < stat.size() && std::atoi(stat.c_str() + end + 4) == ::getpid();
}

// Not every kernel lists a process's children.
std::vector<pid_t> marked_children(const std::string& mark) {
  std::vector<pid_t> children;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const auto pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0 || !is_child(entry.path())) continue;
    if (content_of_process(entry.path() / "environ").find(mark) != std::string::npos) children.push_back(pid);
  }
  return children;
}

}  // namespace

Adoption::Adoption() {
  ::prctl(PR_GET_CHILD_SUBREAPER, &before_);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

Adoption::~Adoption() { ::prctl(PR_SET_CHILD_SUBREAPER, before_); }

void reap_orphans(const std::function<bool(pid_t)>& is_worker) {
  for (;;) {
    siginfo_t ended{};
    if (::waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid <= 0) return;
    if (is_worker(ended.si_pid) || ::waitpid(ended.si_pid, nullptr, WNOHANG) < 0) return;
  }
}

void end_orphans(const std::string& mark) {
  const auto give_up_at = Clock::now() + kGiveUpAfter;
  for (auto children = marked_children(mark); !children.empty(); children = marked_children(mark)) {
    for (const auto child : children) ::kill(child, SIGKILL);
    ::poll(nullptr, 0, kRoundMs);
    for (const auto child : children) ::waitpid(child, nullptr, WNOHANG);
    if (Clock::now() > give_up_at) return;
  }
}

}  // namespace ddprun
