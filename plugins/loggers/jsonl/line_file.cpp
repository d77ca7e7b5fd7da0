// SPDX-License-Identifier: MIT
#include "line_file.h"

#include <unistd.h>

#include <utility>

namespace ddprun::jsonl {
namespace {

bool is_torn(int fd) {
  char last = '\n';
  const auto size = ::lseek(fd, 0, SEEK_END);
  return size > 0 && ::pread(fd, &last, 1, size - 1) == 1 && last != '\n';
}

}  // namespace

void LineFile::open(const std::filesystem::path& path) {
  file_.open(path);
  may_be_torn_ = true;
}

void LineFile::append(const Json& line) {
  const bool torn = std::exchange(may_be_torn_, true) && is_torn(file_.descriptor());
  file_.append((torn ? "\n" : "") + line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  may_be_torn_ = false;
}

}  // namespace ddprun::jsonl
