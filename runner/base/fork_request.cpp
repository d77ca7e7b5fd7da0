// SPDX-License-Identifier: MIT
#include "base/fork_request.h"

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>

namespace ddprun {
namespace {

constexpr size_t kMostFds = 4;  // the request and three standard streams
constexpr char kByte = 'f';     // what carries them

// What a request begins with. The words, the variables and the folder follow, each with its zero, then the numbers.
struct Header {
  uint32_t kind, flags, words, variables, cores, blocked, ignored;
};

[[noreturn]] void fail_request(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

uint32_t size_of(const auto& list) { return static_cast<uint32_t>(list.size()); }

void append(std::string& text, const std::vector<std::string>& words) {
  for (const auto& word : words) text.append(word).push_back('\0');
}

void append(std::string& text, const std::vector<int>& numbers) {
  text.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(int));
}

// Takes a request apart from its beginning to its end.
class Reader {
 public:
  explicit Reader(std::string& text) : text_(text) {}

  Header header() {
    Header header{};
    std::memcpy(&header, take(sizeof header), sizeof header);
    return header;
  }

  char* word() {
    const auto end = text_.find('\0', at_);
    if (end == std::string::npos) fail();
    return take(end + 1 - at_);
  }

  std::vector<char*> words(uint32_t count) {
    std::vector<char*> words;
    for (uint32_t i = 0; i < count; ++i) words.push_back(word());
    words.push_back(nullptr);
    return words;
  }

  std::vector<int> numbers(uint32_t count) {
    const auto* bytes = take(size_t{count} * sizeof(int));
    std::vector<int> numbers(count);
    std::memcpy(numbers.data(), bytes, count * sizeof(int));
    return numbers;
  }

 private:
  [[noreturn]] static void fail() { throw std::runtime_error("a request to the fork server is damaged"); }

  char* take(size_t bytes) {
    if (bytes > text_.size() - at_) fail();
    auto* const taken = text_.data() + at_;
    at_ += bytes;
    return taken;
  }

  std::string& text_;
  size_t at_ = 0;
};

std::string content_of(const UniqueFd& file) {
  std::string text;
  const auto size = ::lseek(file.get(), 0, SEEK_END);
  if (size > 0) text.resize(static_cast<size_t>(size));
  if (size < 0 || ::pread(file.get(), text.data(), text.size(), 0) != size) fail_request("cannot read a request");
  return text;
}

void read_request(ForkRequest& request) {
  Reader reader(request.text);
  const auto header = reader.header();
  request.kind = static_cast<ForkKind>(header.kind);
  request.flags = header.flags;
  request.words = reader.words(header.words);
  request.environment = reader.words(header.variables);
  request.folder = reader.word();
  request.cores = reader.numbers(header.cores);
  request.blocked = reader.numbers(header.blocked);
  request.ignored = reader.numbers(header.ignored);
  const bool whole = request.kind == ForkKind::kLoad || request.streams.size() == kMostFds - 1;
  if (header.words == 0 || !whole)
    throw std::runtime_error("a request to the fork server lacks its command or streams");
}

// The room for file descriptors beside a message.
struct Control {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostFds * sizeof(int))> space{};
};

ssize_t receive_some(int socket, msghdr& message) {
  ssize_t got = 0;
  do got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  return got;
}

}  // namespace

UniqueFd write_fork_request(ForkKind kind, uint32_t flags, const SpawnRequest& request,
                            const std::vector<int>& ignored) {
  const Header header{static_cast<uint32_t>(kind),
                      flags,
                      size_of(request.command),
                      size_of(request.environment),
                      size_of(request.cores),
                      size_of(request.blocked),
                      size_of(ignored)};
  std::string text(reinterpret_cast<const char*>(&header), sizeof header);
  append(text, request.command);
  append(text, request.environment);
  text.push_back('\0');  // the folder
  append(text, request.cores);
  append(text, request.blocked);
  append(text, ignored);
  UniqueFd file(::memfd_create("ddprun-request", MFD_CLOEXEC));
  if (!file.open()) fail_request("memfd_create");
  if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) fail_request("write");
  return file;
}

bool send_fork_request(int socket, const UniqueFd& file, const std::vector<int>& streams) {
  std::vector<int> fds{file.get()};
  fds.insert(fds.end(), streams.begin(), streams.end());
  char byte = kByte;
  iovec data{&byte, 1};
  Control control;
  msghdr message{};
  message.msg_iov = &data, message.msg_iovlen = 1;
  message.msg_control = control.space.data(), message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
  auto* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  std::memcpy(CMSG_DATA(header), fds.data(), fds.size() * sizeof(int));
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

std::unique_ptr<ForkRequest> receive_fork_request(int socket) {
  char byte = 0;
  iovec data{&byte, 1};
  Control control;
  msghdr message{};
  message.msg_iov = &data, message.msg_iovlen = 1;
  message.msg_control = control.space.data(), message.msg_controllen = control.space.size();
  if (receive_some(socket, message) != 1) return nullptr;
  auto request = std::make_unique<ForkRequest>();
  const auto* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) throw std::runtime_error("a request has no file");
  std::array<int, kMostFds> fds{};
  const auto count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
  std::memcpy(fds.data(), CMSG_DATA(header), count * sizeof(int));
  const UniqueFd file(fds[0]);
  for (size_t i = 1; i < count; ++i) request->streams.emplace_back(fds[i]);
  request->text = content_of(file);
  read_request(*request);
  return request;
}

bool send_fork_answer(int socket, ForkAnswer answer) {
  return ::send(socket, &answer, sizeof answer, MSG_NOSIGNAL) == sizeof answer;
}

std::optional<ForkAnswer> receive_fork_answer(int socket) {
  ForkAnswer answer;
  ssize_t got = 0;
  do got = ::recv(socket, &answer, sizeof answer, 0);
  while (got < 0 && errno == EINTR);
  return got == sizeof answer ? std::optional(answer) : std::nullopt;
}

}  // namespace ddprun
