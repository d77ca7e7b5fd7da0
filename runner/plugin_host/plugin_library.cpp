// SPDX-License-Identifier: MIT
#define BOOST_DLL_USE_STD_FS  // Boost.DLL is used header-only: no Boost library to link
#include "base/log.h"
#include "plugin_host/plugin_file.h"

#include <ddprun/error.h>

#include <boost/dll/shared_library.hpp>

#include <dlfcn.h>
#include <link.h>

#include <list>
#include <mutex>
#include <span>

namespace ddprun {
namespace {

using boost::dll::shared_library;

// Reduces Boost.DLL's message to the dynamic linker's.
std::string linker_text(const std::string& message) {
  constexpr std::string_view kBefore = "(dlerror system message: ";
  const auto start = message.find(kBefore);
  const auto end = message.rfind(')');
  if (start == std::string::npos || end == std::string::npos) return message;
  return message.substr(start + kBefore.size(), end - start - kBefore.size());
}

shared_library open(const std::filesystem::path& file) try {
  using boost::dll::load_mode::rtld_local;
  using boost::dll::load_mode::rtld_now;
  return shared_library(std::filesystem::absolute(file), rtld_now | rtld_local);
} catch (const std::system_error& error) {
  throw UserError(file.string() + ": cannot be loaded: " + linker_text(error.what()) + "; `ldd " + file.string() +
                  "` shows which of the libraries it needs are missing");
}

// Keeps a library loaded until the process ends. The list itself is never destroyed: torch keeps pointers into
// libraries that registered types or operators with it, and follows them while the process exits.
const shared_library& keep(shared_library library) {
  static std::mutex mutex;
  static auto& kept = *new std::list<shared_library>;
  const std::lock_guard lock(mutex);
  return kept.emplace_back(std::move(library));
}

}  // namespace

const PluginDescriptor& load_plugin_file(const std::filesystem::path& file) {
  log::debug("loads " + file.string());
  const auto& library = keep(open(file));
  if (!library.has(DDPRUN_DESCRIPTOR_SYMBOL)) {
    throw UserError(file.string() + ": has a descriptor, but hides its symbol " DDPRUN_DESCRIPTOR_SYMBOL
                                    "; link the plugin without a version script or strip -x");
  }
  const auto& descriptor = library.get<PluginDescriptor>(DDPRUN_DESCRIPTOR_SYMBOL);
  const auto problem = plugin_mismatch(descriptor);
  if (!problem.empty()) throw UserError(file.string() + ": changed while it was loaded: " + problem);
  return descriptor;
}

// The compiler puts a call of __cxa_finalize() for the library among its functions for the end (DT_FINI_ARRAY), which
// the dynamic linker calls from the last to the first.
void end_plugin(const PluginDescriptor& descriptor) {
  Dl_info info{};
  link_map* library = nullptr;
  if (::dladdr1(&descriptor, &info, reinterpret_cast<void**>(&library), RTLD_DL_LINKMAP) == 0 || !library) return;
  std::span<void (*const)()> ends;
  for (const auto* entry = library->l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_FINI_ARRAY)
      ends = {reinterpret_cast<void (**)()>(library->l_addr + entry->d_un.d_ptr), ends.size()};
    if (entry->d_tag == DT_FINI_ARRAYSZ) ends = {ends.data(), entry->d_un.d_val / sizeof(void (*)())};
  }
  for (size_t i = ends.size(); i > 0; --i) ends[i - 1]();
}

}  // namespace ddprun
