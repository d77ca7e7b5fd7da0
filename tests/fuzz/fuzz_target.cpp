// SPDX-License-Identifier: MIT
#include "fuzz/fuzz_target.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace ddprun::fuzz {
namespace {

namespace fs = std::filesystem;

// In memory, where the system has files there: a disk would take longer than most readers.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::error_code missing;
    const fs::path memory = "/dev/shm";
    const auto parent = fs::is_directory(memory, missing) ? memory : fs::temp_directory_path();
    auto name = (parent / "ddprun-fuzz-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::runtime_error("cannot make " + name);
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

}  // namespace

fs::path as_file(std::string_view bytes, const std::string& name) {
  static const ScratchFolder kFolder;
  const auto path = kFolder.path() / name;
  std::ofstream stream(path, std::ios::binary);
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  if (!stream.flush()) throw std::runtime_error("cannot write " + path.string());
  return path;
}

#ifndef DDPRUN_FUZZER
void replay(const fs::path& name, Feed reader) {
  size_t inputs = 0;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(fs::path(DDPRUN_CORPUS) / name, missing)) {
    SCOPED_TRACE(entry.path().string());
    std::ifstream stream(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(stream), {}};
    EXPECT_NO_THROW(feed(reader, bytes));
    ++inputs;
  }
  EXPECT_GT(inputs, 0U) << "no inputs in " << fs::path(DDPRUN_CORPUS) / name;
}
#endif

}  // namespace ddprun::fuzz
