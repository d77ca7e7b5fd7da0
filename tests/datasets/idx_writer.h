// SPDX-License-Identifier: MIT
// Files for the tests: idx files, right and wrong, and a folder that goes away with the test.
#pragma once

#include <zlib.h>

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace ddprun::test {

class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "ddprun_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

// What datasets remember of a test's files stays out of the user's cache.
class OwnCache {
 public:
  OwnCache() { setenv("XDG_CACHE_HOME", folder_.path().c_str(), 1); }
  ~OwnCache() { unsetenv("XDG_CACHE_HOME"); }
  OwnCache(const OwnCache&) = delete;
  OwnCache& operator=(const OwnCache&) = delete;

  std::filesystem::path path() const { return folder_ / "ddprun"; }

 private:
  TestFolder folder_;
};

inline std::string big_endian(uint32_t number) {
  return {static_cast<char>(number >> 24), static_cast<char>(number >> 16), static_cast<char>(number >> 8),
          static_cast<char>(number)};
}

inline std::string idx_header(const std::vector<uint32_t>& numbers) {
  std::string text;
  for (const uint32_t number : numbers) text += big_endian(number);
  return text;
}

inline constexpr uint32_t kImages = 0x803, kLabels = 0x801;

// Pixel p of image n is n + p.
inline std::string image_file(uint32_t count, uint32_t rows = 4, uint32_t columns = 3) {
  auto text = idx_header({kImages, count, rows, columns});
  for (uint32_t n = 0; n < count; ++n) {
    for (uint32_t p = 0; p < rows * columns; ++p) text += static_cast<char>(n + p);
  }
  return text;
}

// Label n is n % 10.
inline std::string label_file(uint32_t count) {
  auto text = idx_header({kLabels, count});
  for (uint32_t n = 0; n < count; ++n) text += static_cast<char>(n % 10);
  return text;
}

inline std::filesystem::path write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

inline std::filesystem::path write_packed(const std::filesystem::path& path, const std::string& bytes) {
  const gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
  return path;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The message of the exception that `call` throws; "nothing thrown" where it throws none.
template <class Error, class Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing thrown";
}

}  // namespace ddprun::test
