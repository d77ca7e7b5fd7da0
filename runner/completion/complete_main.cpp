// SPDX-License-Identifier: MIT
// ddprun-complete: what `ddprun complete WORD...` becomes (main.cpp). It answers from share/ddprun/completion.json, and
// hands over to ddprun itself where those of DDPRUN_PLUGIN_PATH have to be loaded. It is silent about all mistakes:
// somebody is typing.
#include "base/log.h"
#include "base/program.h"
#include "completion/completion.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

// Nobody waits longer for an answer, whatever the line names: a pipe, a file system that is away.
constexpr unsigned kMostSeconds = 10;

int main(int argc, char** argv) try {
  ::alarm(kMostSeconds);
  const auto prefix = ddprun::own_program().parent_path().parent_path();
  ::setenv(ddprun::log::kLevelVariable, "quiet", /*overwrite=*/1);
  const std::vector<std::string> words(argv + std::min(argc, 2), argv + argc);
  std::ifstream file(prefix / "share" / "ddprun" / "completion.json");
  const auto description = ddprun::Description::parse(file);
  const char* path = std::getenv("DDPRUN_PLUGIN_PATH");
  if (path && *path && ddprun::may_name_plugin(words, description)) {
    ::setenv("DDPRUN_COMPLETE", "with plugins", /*overwrite=*/1);
    ::execv((prefix / "bin" / "ddprun").c_str(), argv);
  }
  for (const auto& [text, help] : ddprun::complete(words, description)) std::cout << text << "\t" << help << "\n";
  return 0;
} catch (const std::exception&) {
  return 1;
}
