// SPDX-License-Identifier: MIT
// One reader of foreign bytes, for libFuzzer and for the test that replays tests/fuzz/corpus/<name>/:
//
//   void feed_hosts(std::string_view bytes) { expand_hosts({"LIST", std::string(bytes)}); }
//   DDPRUN_FUZZ_TARGET(hosts, feed_hosts)
//
// The reader may take the bytes, or refuse them with a UserError. All else is a bug: another exception, a crash, an
// overflow, more than 10 s or 2 GB for one input.
#pragma once

#include <ddprun/error.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace ddprun::fuzz {

using Feed = void (*)(std::string_view bytes);

inline void feed(Feed reader, std::string_view bytes) try { reader(bytes); } catch (const UserError&) {
}

// The bytes as a file of this name, in a folder of this process. It lasts until the next of its name.
std::filesystem::path as_file(std::string_view bytes, const std::string& name = "input");

void replay(const std::filesystem::path& name, Feed reader);

}  // namespace ddprun::fuzz

#ifdef DDPRUN_FUZZER
#define DDPRUN_FUZZ_TARGET(name, reader)                                             \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {          \
    ddprun::fuzz::feed(ddprun::reader, {reinterpret_cast<const char*>(data), size}); \
    return 0;                                                                        \
  }
#else
#include <gtest/gtest.h>
#define DDPRUN_FUZZ_TARGET(name, reader) \
  TEST(FuzzCorpus, name) { ddprun::fuzz::replay(#name, ddprun::reader); }
#endif
