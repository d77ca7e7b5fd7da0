// SPDX-License-Identifier: MIT
#include "plugin_host/plugin_file.h"

#include "plugin_host/elf_section.h"

#include <ddprun/error.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

namespace ddprun {
namespace {

constexpr std::array<std::string_view, 4> kKinds = {"model", "dataset", "optimizer", "logger"};

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
    return "its kind is \"" + kind + "\", but ddprun has the kinds model, dataset, optimizer and logger";
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

}  // namespace ddprun
