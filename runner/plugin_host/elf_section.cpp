// SPDX-License-Identifier: MIT
#include "plugin_host/elf_section.h"

#include <ddprun/error.h>

#include <elf.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <vector>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

#if defined(__x86_64__)
constexpr auto kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr auto kMachine = EM_AARCH64;
#else
#error "ddprun runs on x86-64 and 64-bit ARM"
#endif
static_assert(std::endian::native == std::endian::little);

constexpr const char* kRebuild = "; build the plugin on this machine";

class ElfFile {
 public:
  explicit ElfFile(const fs::path& file) {
    std::error_code error;
    if (!fs::is_regular_file(file, error)) throw UserError(error ? error.message() : "not a file");
    size_ = fs::file_size(file, error);
    stream_.open(file, std::ios::binary);
    if (error || !stream_) throw UserError("cannot be read: " + std::string(std::strerror(errno)));
    check_header();
    read_sections();
  }

  std::optional<std::string> section(std::string_view name, size_t limit) {
    const auto names = read(names_.sh_offset, names_.sh_size, "its section names");
    for (const auto& section : sections_) {
      if (section.sh_type != SHT_PROGBITS || section.sh_name >= names.size()) continue;
      const auto found = std::string_view(names).substr(section.sh_name);
      if (!found.starts_with(name) || found.size() == name.size() || found[name.size()] != '\0') continue;
      return read(section.sh_offset, std::min<uint64_t>(section.sh_size, limit), "the section " + std::string(name));
    }
    return std::nullopt;
  }

 private:
  void check_header() {
    if (size_ < sizeof header_)
      throw UserError("not a shared library" + std::string(size_ == 0 ? ": the file is empty" : ""));
    const auto bytes = read(0, sizeof header_, "its header");
    std::memcpy(&header_, bytes.data(), sizeof header_);
    const auto* ident = header_.e_ident;
    if (std::memcmp(ident, ELFMAG, SELFMAG) != 0) throw UserError("not a shared library: it is not an ELF file");
    if (ident[EI_CLASS] != ELFCLASS64)
      throw UserError("built for a 32-bit machine, this one has 64 bits" + std::string(kRebuild));
    if (ident[EI_DATA] != ELFDATA2LSB) {
      throw UserError("built for a big-endian machine, this one is little-endian" + std::string(kRebuild));
    }
    if (header_.e_type != ET_DYN)
      throw UserError("not a shared library, but an ELF file of type " + std::to_string(header_.e_type));
    if (header_.e_machine != kMachine) {
      throw UserError("built for another processor (ELF machine " + std::to_string(header_.e_machine) +
                      ", this one is " + std::to_string(kMachine) + ")" + kRebuild);
    }
  }

  void read_sections() {
    if (header_.e_shoff == 0 || header_.e_shnum == 0) return;
    if (header_.e_shentsize != sizeof(Elf64_Shdr)) damaged("its section table");
    const auto bytes = read(header_.e_shoff, uint64_t{header_.e_shnum} * sizeof(Elf64_Shdr), "its section table");
    sections_.resize(header_.e_shnum);
    std::memcpy(sections_.data(), bytes.data(), bytes.size());
    if (header_.e_shstrndx >= sections_.size()) damaged("its section names");
    names_ = sections_[header_.e_shstrndx];
  }

  std::string read(uint64_t offset, uint64_t length, const std::string& what) {
    if (offset > size_ || length > size_ - offset) damaged(what);
    std::string bytes(length, '\0');
    stream_.seekg(static_cast<std::streamoff>(offset));
    stream_.read(bytes.data(), static_cast<std::streamsize>(length));
    if (!stream_) damaged(what);
    return bytes;
  }

  [[noreturn]] static void damaged(const std::string& what) {
    throw UserError("damaged or cut off: " + what + " does not lie in the file; build or copy it again");
  }

  std::ifstream stream_;
  uint64_t size_ = 0;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Shdr> sections_;
  Elf64_Shdr names_{};
};

}  // namespace

std::optional<std::string> read_elf_section(const fs::path& file, std::string_view name, size_t limit) {
  return ElfFile(file).section(name, limit);
}

}  // namespace ddprun
