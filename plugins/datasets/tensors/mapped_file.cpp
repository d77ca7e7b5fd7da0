// SPDX-License-Identifier: MIT
#include "mapped_file.h"

#include <ddprun/error.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace ddprun::arrays {

void MappedFile::refuse(const std::string& flaw) const { throw UserError(path.string() + ": " + flaw); }

MappedFile map_file(const std::filesystem::path& path) {
  MappedFile mapped{.path = path};
  const int file = open(mapped.path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) mapped.refuse("cannot be opened: " + std::string(std::strerror(errno)) + "; name a file that exists");
  struct stat status {};
  const bool is_file = fstat(file, &status) == 0 && S_ISREG(status.st_mode);
  mapped.size = static_cast<uint64_t>(status.st_size);
  void* memory = is_file && mapped.size > 0 ? mmap(nullptr, mapped.size, PROT_READ, MAP_SHARED, file, 0) : MAP_FAILED;
  const int error = errno;
  close(file);
  if (!is_file) mapped.refuse("is not a file; name a .safetensors file, or [input.npy, target.npy]");
  if (mapped.size == 0) mapped.refuse("the file is empty; write it again");
  if (memory == MAP_FAILED) mapped.refuse("cannot be read: " + std::string(std::strerror(error)));
  mapped.bytes = {static_cast<const uint8_t*>(memory),
                  [memory, size = mapped.size](const uint8_t*) { munmap(memory, size); }};
  return mapped;
}

}  // namespace ddprun::arrays
