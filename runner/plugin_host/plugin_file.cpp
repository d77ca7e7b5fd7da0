// SPDX-License-Identifier: MIT
#include "plugin_host/plugin_file.h"

#include <ddprun/error.h>

#include <elf.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <vector>

namespace ddprun {
namespace {

constexpr std::array<std::string_view, 6> kKinds = {"model", "dataset", "optimizer", "objective", "logger", "callback"};

// Reads a text from an untrusted file: up to its end or its array's, without control characters.
template <size_t Size>
std::string text_of(const char (&array)[Size]) {
  std::string text(array, strnlen(array, Size));
  std::ranges::replace_if(text, [](unsigned char c) { return c < ' ' || c == 127; }, '?');
  return text;
}

std::string version_text(const uint32_t (&version)[3]) {
  return std::to_string(version[0]) + "." + std::to_string(version[1]) + "." + std::to_string(version[2]);
}

// Before 1.0 every minor version may change the interfaces; after that only a major one may, and a minor one may add to
// them.
bool sdk_fits(const uint32_t (&version)[3]) {
  if (version[0] != DDPRUN_VERSION_MAJOR) return false;
  return DDPRUN_VERSION_MAJOR == 0 ? version[1] == DDPRUN_VERSION_MINOR : version[1] <= DDPRUN_VERSION_MINOR;
}

std::string_view minor_version(std::string_view version) {
  return version.substr(0, version.find('.', version.find('.') + 1));
}

std::string abi_text(uint32_t flag) { return "_GLIBCXX_USE_CXX11_ABI=" + std::to_string(flag); }

std::string mismatch(const std::string& what, const std::string& plugin, const std::string& program,
                     const std::string& cure) {
  return "built with " + what + plugin + ", but this ddprun with " + what + program + "; " + cure;
}

// Returns the descriptor's bytes if they have our layout.
std::string read_descriptor(const std::filesystem::path& file, PluginDescriptor& descriptor) {
  const auto bytes = read_elf_section(file, DDPRUN_DESCRIPTOR_SECTION, sizeof descriptor);
  if (!bytes) {
    return "a shared library, but not a ddprun plugin: it has no descriptor; its source needs a line like "
           "DDPRUN_MODEL(Class, \"name\", \"help\")";
  }
  std::memcpy(&descriptor, bytes->data(), bytes->size());
  constexpr size_t kStamp = offsetof(PluginDescriptor, sdk_version);
  if (bytes->size() < kStamp || text_of(descriptor.magic) != DDPRUN_DESCRIPTOR_MAGIC) {
    return "its descriptor begins with \"" + text_of(descriptor.magic) +
           "\", this ddprun reads " DDPRUN_DESCRIPTOR_MAGIC
           "; rebuild the plugin with the SDK of ddprun " DDPRUN_VERSION;
  }
  if (descriptor.size != sizeof descriptor || bytes->size() != sizeof descriptor) {
    return "its descriptor has " + std::to_string(descriptor.size) + " bytes, this ddprun's has " +
           std::to_string(sizeof descriptor) + "; rebuild the plugin with the SDK of ddprun " DDPRUN_VERSION;
  }
  return "";
}

}  // namespace

bool is_this_torch(std::string_view version) { return minor_version(version) == minor_version(TORCH_VERSION); }

std::string plugin_mismatch(const PluginDescriptor& descriptor) {
  const auto sdk = version_text(descriptor.sdk_version);
  if (!sdk_fits(descriptor.sdk_version)) {
    return mismatch("ddprun SDK ", sdk, DDPRUN_VERSION, "rebuild the plugin with the SDK of this ddprun");
  }
  const auto torch = text_of(descriptor.torch_version);
  if (!is_this_torch(torch)) {
    return mismatch("LibTorch ", torch, TORCH_VERSION, "rebuild the plugin with the LibTorch of this ddprun");
  }
  if (descriptor.cxx11_abi != _GLIBCXX_USE_CXX11_ABI) {
    return mismatch("the C++ ABI ", abi_text(descriptor.cxx11_abi), abi_text(_GLIBCXX_USE_CXX11_ABI),
                    "rebuild the plugin with -D" + abi_text(_GLIBCXX_USE_CXX11_ABI));
  }
  const auto stdlib = text_of(descriptor.stdlib);
  if (stdlib != DDPRUN_STDLIB) {
    return mismatch("the standard library ", stdlib, DDPRUN_STDLIB,
                    "rebuild the plugin with a compiler that uses " DDPRUN_STDLIB);
  }
  const auto kind = text_of(descriptor.kind);
  if (std::ranges::find(kKinds, kind) == kKinds.end()) {
    return "its kind is \"" + kind +
           "\", but ddprun has the kinds model, dataset, optimizer, objective, callback and logger";
  }
  if (descriptor.name[0] == '\0') return "its name is empty; register it with the name that experiments write";
  return "";
}

PluginInfo read_plugin_file(const std::filesystem::path& file) {
  PluginInfo info{.file = file};
  PluginDescriptor descriptor{};
  try {
    info.problem = read_descriptor(file, descriptor);
  } catch (const UserError& error) {
    info.problem = error.what();
  }
  if (!info.problem.empty()) return info;
  info.kind = text_of(descriptor.kind);
  info.name = text_of(descriptor.name);
  info.help = text_of(descriptor.help);
  info.sdk_version = version_text(descriptor.sdk_version);
  info.torch_version = text_of(descriptor.torch_version);
  info.compiler = text_of(descriptor.compiler);
  info.problem = plugin_mismatch(descriptor);
  return info;
}

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
