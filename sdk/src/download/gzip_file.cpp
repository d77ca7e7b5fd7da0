// SPDX-License-Identifier: MIT
#include <ddprun/error.h>
#include <ddprun/gzip_file.h>

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace ddprun {

bool is_gzip(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<char, 2> start{};
  if (!file) throw UserError(path.string() + ": cannot be opened: " + std::strerror(errno));
  file.read(start.data(), start.size());
  return file.gcount() == 2 && start[0] == '\x1f' && start[1] == '\x8b';
}

GzipFile::GzipFile(const std::filesystem::path& path)
    : path_(path), file_(gzopen(path.c_str(), "rb"), [](gzFile file) { file&& gzclose(file); }) {
  if (!file_) throw UserError(path.string() + ": cannot be opened: " + std::strerror(errno));
  gzbuffer(file_.get(), 1 << 18);
}

size_t GzipFile::read(std::span<uint8_t> out) {
  size_t done = 0;
  while (done < out.size()) {
    constexpr size_t kMostAtOnce = 1 << 26;  // gzread counts in int
    const auto want = std::min(out.size() - done, kMostAtOnce);
    const int got = gzread(file_.get(), out.data() + done, static_cast<unsigned>(want));
    int error = Z_OK;
    const char* text = gzerror(file_.get(), &error);
    if (got < 0 && error != Z_BUF_ERROR) {
      throw UserError(path_.string() + ": its gzip data are damaged (" + text + "); replace the file");
    }
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

bool GzipFile::cut_off() const {
  int error = Z_OK;
  gzerror(file_.get(), &error);
  return error == Z_BUF_ERROR;
}

}  // namespace ddprun
