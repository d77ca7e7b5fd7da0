// SPDX-License-Identifier: MIT
// ddprun-complete: what `ddprun complete WORD...` becomes (main.cpp). It answers from share/ddprun/completion.json, and
// hands over to ddprun itself where plugins have to be loaded. It is silent about all mistakes: somebody is typing.
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

int main(int argc, char** argv) try {
  const auto prefix = ddprun::own_program().parent_path().parent_path();
  ::setenv(ddprun::log::kLevelVariable, "quiet", /*overwrite=*/1);
  const std::vector<std::string> words(argv + std::min(argc, 2), argv + argc);
  std::ifstream file(prefix / "share" / "ddprun" / "completion.json");
  const auto description = ddprun::Description::parse(file);
  const char* path = std::getenv("DDPRUN_PLUGIN_PATH");
  if ((path && *path) || !ddprun::own_plugin_folders(words, description).empty()) {
    ::setenv("DDPRUN_COMPLETE", "with plugins", /*overwrite=*/1);
    ::execv((prefix / "bin" / "ddprun").c_str(), argv);
  }
  for (const auto& [text, help] : ddprun::complete(words, description)) std::cout << text << "\t" << help << "\n";
  return 0;
} catch (const std::exception&) {
  return 1;
}
