// SPDX-License-Identifier: MIT
#include "line_file.h"

#include <ddprun/error.h>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ddprun::jsonl {

LineFile::~LineFile() {
  if (fd_ >= 0) ::close(fd_);
}

void LineFile::open(const std::filesystem::path& path) {
  path_ = path;
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (fd_ < 0) throw UserError("cannot write " + path.string() + ": " + std::strerror(errno));
  char last = '\n';
  const auto size = ::lseek(fd_, 0, SEEK_END);
  if (size > 0 && ::pread(fd_, &last, 1, size - 1) == 1 && last != '\n') write("\n");
}

void LineFile::append(const Json& line) { write(line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"); }

void LineFile::write(const std::string& text) {
  const auto written = ::write(fd_, text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size())) return;
  const std::string cause = written < 0 ? std::strerror(errno) : "the disk is full";
  throw UserError(path_.filename().string() + " cannot be written: " + cause);
}

}  // namespace ddprun::jsonl
