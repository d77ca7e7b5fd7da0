// SPDX-License-Identifier: MIT
// The plugin's stamp, in plain C types: `ddprun_plugin`, the only symbol that a plugin exports. It lies in an ELF
// section of its own and its texts are arrays, not pointers, so a host can read and check it in the file before it
// loads the library or runs a line of it.
#pragma once

#include <ddprun/version.h>

#include <torch/headeronly/version.h>

#include <cstdint>

#define DDPRUN_DESCRIPTOR_SECTION ".ddprun_plugin"  // the dot keeps it from clashing with the symbol
#define DDPRUN_DESCRIPTOR_SYMBOL "ddprun_plugin"
#define DDPRUN_DESCRIPTOR_MAGIC "DDPRUN1"

namespace ddprun {

struct PluginDescriptor {
  char magic[8];            // DDPRUN_DESCRIPTOR_MAGIC
  uint32_t size;            // sizeof(PluginDescriptor) as the plugin saw it
  uint32_t sdk_version[3];  // major, minor, patch of the SDK it was compiled with
  char torch_version[32];   // of the LibTorch it was compiled with: "2.11.0"
  uint32_t cxx11_abi;       // _GLIBCXX_USE_CXX11_ABI
  char stdlib[16];          // "libstdc++" or "libc++"
  char compiler[64];        // for the report: "12.2.0" or "clang"
  char kind[16];            // "model", "dataset", "optimizer", "objective", "logger" or "callback"
  char name[64];
  char help[256];
  void (*create)(void* options,
                 void* shared_ptr_out);  // detail::create_plugin; zero in the file, set when it is loaded
};

}  // namespace ddprun

#ifdef _LIBCPP_VERSION
#define DDPRUN_STDLIB "libc++"
#else
#define DDPRUN_STDLIB "libstdc++"
#endif

#ifndef _GLIBCXX_USE_CXX11_ABI
#define _GLIBCXX_USE_CXX11_ABI 1
#endif

// clang's own text may have the address of its source, which does not fit.
#ifdef __clang__
#define DDPRUN_COMPILER "clang"
#else
#define DDPRUN_COMPILER __VERSION__
#endif

// The fields that are the same for every plugin of one build. The tests' broken plugins write their own.
#define DDPRUN_DESCRIPTOR_STAMP                                                                                  \
  DDPRUN_DESCRIPTOR_MAGIC, sizeof(::ddprun::PluginDescriptor),                                                   \
      {DDPRUN_VERSION_MAJOR, DDPRUN_VERSION_MINOR, DDPRUN_VERSION_PATCH}, TORCH_VERSION, _GLIBCXX_USE_CXX11_ABI, \
      DDPRUN_STDLIB, DDPRUN_COMPILER
