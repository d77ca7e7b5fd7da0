// SPDX-License-Identifier: MIT
#include "line_file.h"

#include <unistd.h>

namespace ddprun::jsonl {

void LineFile::open(const std::filesystem::path& path) {
  file_.open(path);
  char last = '\n';
  const auto size = ::lseek(file_.descriptor(), 0, SEEK_END);
  if (size > 0 && ::pread(file_.descriptor(), &last, 1, size - 1) == 1 && last != '\n') file_.append("\n");
}

void LineFile::append(const Json& line) {
  file_.append(line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace ddprun::jsonl
