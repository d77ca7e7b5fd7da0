// SPDX-License-Identifier: MIT
#include "base/fork_server.h"

#include "base/cores.h"
#include "base/fork_request.h"
#include "base/log.h"
#include "base/openmp_threads.h"
#include "base/program.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/prctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr auto kStartVariable = "DDPRUN_START";
constexpr int kNotReady = 127;  // the exit code of a process that could not become what was asked for

// Why a server makes no process; other numbers are the errno of a system call that has failed.
constexpr int kHasThreads = EAGAIN, kOtherVariables = ENOTSUP, kNoKernelSupport = ENOSYS;

std::string reason_of(int error) {
  if (error == kHasThreads) return "the fork server has more than one thread";
  if (error == kOtherVariables) return "a variable that libraries read at load has another value than in the server";
  if (error == kNoKernelSupport) return "the kernel lacks PR_SET_MM_MAP or PR_GET_TID_ADDRESS, or forbids them";
  return error == 0 ? "the fork server has ended" : "the fork server cannot: " + std::generic_category().message(error);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

bool has_one_thread() {
  std::error_code error;
  const fs::directory_iterator tasks("/proc/self/task", error);
  return !error && std::distance(begin(tasks), end(tasks)) == 1;
}

// --- variables that libraries read when they are loaded ---

using Variables = std::map<std::string, std::string>;

constexpr auto kReadAtLoad =
    std::to_array<std::string_view>({"LD_", "GLIBC_", "MALLOC_", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "ATEN_",
                                     "C10_", "TORCH_", "PYTORCH_", "DNNL_", "ONEDNN_", "KINETO_", "CUDA_"});
constexpr auto kReadLater = std::to_array<std::string_view>({"TORCH_NCCL_", "TORCH_FR_", "CUDA_VISIBLE_DEVICES"});

bool begins_with_any(std::string_view name, const auto& prefixes) {
  return std::ranges::any_of(prefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

Variables read_at_load(const char* const* environment) {
  Variables found;
  for (; *environment != nullptr; ++environment) {
    const std::string_view text = *environment;
    const auto name = text.substr(0, text.find('='));
    if (begins_with_any(name, kReadAtLoad) && !begins_with_any(name, kReadLater))
      found.emplace(name, text.substr(std::min(text.size(), name.size() + 1)));
  }
  return found;
}

// Returns those that this process was loaded with, of its first call on.
const Variables& loaded_with() {
  static const Variables variables = read_at_load(environ);
  return variables;
}

bool is_number(const std::string& text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// Returns whether a program that is started with these variables would load its libraries as they are here.
bool suits(const char* const* environment) {
  auto wanted = read_at_load(environment), here = loaded_with();
  if (!wanted.contains(kWaitVariable)) wanted.emplace(kSpinVariable, kShortSpin);  // bin/ddprun sets it
  const auto threads = wanted.find(kThreadsVariable);
  if (threads != wanted.end() && is_number(threads->second)) here[kThreadsVariable] = threads->second;  // is obeyed
  return wanted == here;
}

// --- what /proc shows of a process ---

// Where its command line and environment are, and its thread's own number.
struct ShownPlaces {
  prctl_mm_map map{};
  int* tid = nullptr;
  bool known = false;
};

bool show(prctl_mm_map& map) {
  map.brk = reinterpret_cast<uint64_t>(::sbrk(0));
  return ::prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0) == 0;
}

// Reads the places in /proc/self/stat, whose fields proc(5) counts from 1, and tries whether they may be set.
ShownPlaces find_shown_places() {
  std::ifstream file("/proc/self/stat");
  std::string text{std::istreambuf_iterator(file), {}};
  std::istringstream words(text.substr(std::min(text.size(), text.rfind(')') + 2)));  // behind the program's name
  std::vector<uint64_t> fields(2);
  for (std::string word; words >> word;) fields.push_back(std::strtoull(word.c_str(), nullptr, 10));
  constexpr size_t kFields = 51;
  ShownPlaces places;
  if (fields.size() < kFields) return places;
  const auto field = [&](size_t number) { return fields[number - 1]; };
  places.map = {.start_code = field(26),
                .end_code = field(27),
                .start_data = field(45),
                .end_data = field(46),
                .start_brk = field(47),
                .start_stack = field(28),
                .arg_start = field(48),
                .arg_end = field(49),
                .env_start = field(50),
                .env_end = field(51),
                .exe_fd = static_cast<uint32_t>(-1)};
  places.known = ::prctl(PR_GET_TID_ADDRESS, &places.tid, 0, 0, 0) == 0 && places.tid != nullptr && show(places.map);
  return places;
}

// Shows the process with a command line and an environment that lie one behind the other, up to `end`.
bool show_as(ShownPlaces places, char* const* words, char* const* environment, const char* end) {
  const auto address = [](const char* text) { return reinterpret_cast<uint64_t>(text); };
  places.map.arg_start = address(words[0]);
  places.map.env_start = places.map.arg_end = address(environment[0] ? environment[0] : end);
  places.map.env_end = address(end);
  return show(places.map);
}

// --- the process that is forked ---

// Makes a sibling of this process, as fork() makes a child: the numbers of thread and robust list are set as it does.
pid_t fork_sibling(int* tid) {
  void* robust = nullptr;
  size_t bytes = 0;
  ::syscall(SYS_get_robust_list, 0, &robust, &bytes);
  constexpr auto kFlags = CLONE_PARENT | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | SIGCHLD;
#if defined(__aarch64__)
  const auto pid = ::syscall(SYS_clone, kFlags, nullptr, nullptr, nullptr, tid);
#else
  const auto pid = ::syscall(SYS_clone, kFlags, nullptr, nullptr, tid, nullptr);
#endif
  if (pid == 0 && robust != nullptr) ::syscall(SYS_set_robust_list, robust, bytes);
  return static_cast<pid_t>(pid);
}

void set_signals(const ForkRequest& request) {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, &action, nullptr);
  action.sa_handler = SIG_IGN;
  for (const int signal : request.ignored) ::sigaction(signal, &action, nullptr);
}

bool take_group(uint32_t flags, pid_t parent) {
  if ((flags & kOwnSession) != 0 && ::setsid() < 0) return false;
  if ((flags & kOwnGroup) != 0 && ::setpgid(0, 0) != 0) return false;
  if ((flags & kDiesWithParent) == 0) return true;
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) return false;
  errno = ESRCH;
  return ::getppid() == parent;  // else it died before the line above, so no signal will come
}

// Makes this process what is asked for. Returns false with errno if it cannot.
bool become(ForkRequest& request, const ShownPlaces& places, pid_t parent) {
  set_signals(request);
  bool ready = take_group(request.flags, parent);
  for (int fd = 0; fd < std::ssize(request.streams); ++fd) ready = ready && ::dup2(request.streams[fd].get(), fd) >= 0;
  request.streams.clear();
  if (const auto cores = mask_of_cores(request.cores); !cores.empty())
    ::sched_setaffinity(0, cores.size() * sizeof(cpu_set_t), cores.data());
  if (*request.folder != '\0') ready = ready && ::chdir(request.folder) == 0;
  environ = request.environment.data();
  return ready && show_as(places, request.words.data(), request.environment.data(), request.folder);
}

// --- the server ---

// Closes what the program was started with but for its standard streams and this file. What closes on exec is its
// libraries' own.
void close_inherited(int kept) {
  std::vector<int> inherited;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd", error)) {
    const int fd = std::atoi(entry.path().filename().c_str());
    if (fd > STDERR_FILENO && fd != kept && ::fcntl(fd, F_GETFD) == 0) inherited.push_back(fd);
  }
  for (const int fd : inherited) ::close(fd);
}

void load(const ForkRequest& request) {
  if (suits(environ)) ::dlopen(request.words[0], RTLD_NOW | RTLD_GLOBAL);
}

int refusal(const ForkRequest& request, const ShownPlaces& places) {
  if (!places.known) return kNoKernelSupport;
  if (!has_one_thread()) return kHasThreads;
  return suits(request.environment.data()) ? 0 : kOtherVariables;
}

// Answers requests until nobody can send one. Returns in each process that is forked, which answers for itself, so that
// one that exists is always known.
ForkedCommand serve(int socket, pid_t parent) {
  const auto places = find_shown_places();
  while (auto request = receive_fork_request(socket)) {
    if (request->kind == ForkKind::kLoad) {
      load(*request);
      continue;
    }
    const int refused = refusal(*request, places);
    const pid_t pid = refused != 0 ? -1 : fork_sibling(places.tid);
    if (pid < 0) send_fork_answer(socket, {.error = refused != 0 ? refused : errno});
    if (pid != 0) continue;
    const bool ready = become(*request, places, parent);
    send_fork_answer(socket, {.pid = ::getpid(), .error = ready ? 0 : errno});
    if (!ready) ::_exit(kNotReady);
    ::close(socket);
    const auto& kept = *request.release();  // until the process ends: its environment, and what /proc shows
    return {static_cast<int>(kept.words.size()) - 1, const_cast<char**>(kept.words.data()), signal_set(kept.blocked)};
  }
  ::_exit(0);
}

// What `ps` shows of a server: it is none of the processes whose arguments and environment it has.
void show_as_server() {
  constexpr std::string_view kText = "ddprun: fork server";
  char* const text = ::strdup(kText.data());  // for good, and on the heap: /proc shows no other memory
  char* const words[] = {text, nullptr};
  char* const nothing[] = {nullptr};
  if (const auto places = find_shown_places(); places.known) show_as(places, words, nothing, text + kText.size() + 1);
}

// --- the process that asks ---

constexpr int kPatienceSeconds = 60;  // for an answer: until then the server may load a library

int server_socket = -1, server_process = -1;  // the second is a pidfd

// Gives up the server, for good: a program is exec'ed from now on.
std::nullopt_t exec_instead(int error) {
  log::debug("processes are exec'ed, not forked from one that has LibTorch loaded: " + reason_of(error));
  ::close(std::exchange(server_socket, -1));
  ::close(std::exchange(server_process, -1));
  return std::nullopt;
}

// Becomes the server for a process, whose fork this is.
ForkedCommand serve_as_fork(UniqueFd socket, pid_t parent) {
  ::setpgid(0, 0);  // a terminal's Ctrl-C is not for it
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(0);
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  for (int fd = 0; fd <= STDERR_FILENO; ++fd) ::dup2(null.get(), fd);
  close_inherited(socket.get());
  show_as_server();
  return serve(socket.get(), parent);
}

// Waits for the answer. A server that gives none is killed, so that none can come later; one that has forked by then
// has left its answer.
std::optional<ForkAnswer> answer_of_server() {
  auto answer = receive_fork_answer(server_socket);
  if (answer) return answer;
  ::syscall(SYS_pidfd_send_signal, server_process, SIGKILL, nullptr, 0);
  return receive_fork_answer(server_socket);
}

std::vector<int> ignored_by_workers() {
  struct sigaction hangup = {};
  ::sigaction(SIGHUP, nullptr, &hangup);
  return hangup.sa_handler == SIG_IGN ? std::vector{SIGTTOU, SIGHUP} : std::vector{SIGTTOU};
}

}  // namespace

std::optional<ForkedCommand> serve_if_asked() {
  loaded_with();
  const char* number = std::getenv(kForkServerVariable);
  if (!number) return std::nullopt;
  if (kSanitized) ::_exit(0);  // who asks execs
  const int socket = std::atoi(number);
  close_inherited(socket);
  ::fcntl(socket, F_SETFD, FD_CLOEXEC);
  show_as_server();
  return serve(socket, ::getppid());
}

std::optional<ForkedCommand> start_fork_server() {
  const char* start = std::getenv(kStartVariable);
  if (kSanitized || (start && std::string_view(start) == "exec") || !has_one_thread()) return std::nullopt;
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return std::nullopt;
  UniqueFd ours(ends[0]), servers(ends[1]);
  const auto parent = ::getpid();
  const auto pid = ::fork();
  if (pid == 0) {
    ours.reset();
    return serve_as_fork(std::move(servers), parent);
  }
  if (pid < 0) return std::nullopt;
  const timeval patience{.tv_sec = kPatienceSeconds};
  ::setsockopt(ours.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  server_socket = ours.release();
  server_process = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
  return std::nullopt;
}

void load_in_fork_server(const fs::path& library) {
  if (server_socket < 0) return;
  send_fork_request(server_socket, write_fork_request(ForkKind::kLoad, 0, {.command = {library.string()}}, {}), {});
}

std::optional<pid_t> fork_from_server(const SpawnRequest& request) {
  if (server_socket < 0 || request.command.at(0) != own_program().string()) return std::nullopt;
  const auto file = write_fork_request(ForkKind::kFork, kOwnGroup | kDiesWithParent, request, ignored_by_workers());
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const std::vector<int> streams{null.get(), request.stdout_fd >= 0 ? request.stdout_fd : STDOUT_FILENO,
                                 request.stderr_fd >= 0 ? request.stderr_fd : STDERR_FILENO};
  if (!send_fork_request(server_socket, file, streams)) return exec_instead(0);
  const auto answer = answer_of_server();
  if (!answer) return exec_instead(0);
  if (answer->error == 0) return answer->pid;
  if (answer->pid > 0) ::waitpid(answer->pid, nullptr, 0);
  return exec_instead(answer->error);
}

}  // namespace ddprun
