// SPDX-License-Identifier: MIT
#include "base/on_demand.h"

#include "base/program.h"
#include "base/spawn.h"

#include <ddprun/error.h>

#include <fcntl.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string_view>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

bool may_build() {
  const char* word = std::getenv(kOnDemandVariable);
  return !word || std::string_view(word) != "no";
}

// Returns "model convnet" for lib/ddprun/plugins/models/convnet.so.
std::string title_of(const fs::path& part) {
  const auto folder = part.parent_path().filename().string();
  return folder.substr(0, folder.size() - 1) + " " + part.stem().string();
}

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

// Lets signals reach this process, and what it starts, while it lives.
class UnblockedSignals {
 public:
  UnblockedSignals() {
    sigset_t none;
    ::sigemptyset(&none);
    ::pthread_sigmask(SIG_SETMASK, &none, &before_);
  }
  ~UnblockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  UnblockedSignals(const UnblockedSignals&) = delete;
  UnblockedSignals& operator=(const UnblockedSignals&) = delete;

 private:
  sigset_t before_;
};

bool succeeds(const std::vector<std::string>& command) {
  const UnblockedSignals unblocked;
  const UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return wait_for(start_program(command, {nothing.get(), STDERR_FILENO, STDERR_FILENO}, ProgramGroup::kOurs)) == 0;
}

}  // namespace

fs::path own_prefix() { return own_program().parent_path().parent_path(); }

std::vector<std::string> unbuilt_parts() {
  const auto prefix = own_prefix();
  std::error_code error;
  const bool unsure = may_build() && fs::exists(prefix / ".building", error);
  std::ifstream list(prefix / "share/ddprun/on_demand");
  std::vector<std::string> parts;
  for (std::string part; std::getline(list, part);)
    if (unsure || !fs::exists(prefix / part, error)) parts.push_back(part);
  return parts;
}

void require_parts(std::vector<std::string> parts) {
  const auto unbuilt = unbuilt_parts();
  std::erase_if(parts, [&](const std::string& part) { return std::ranges::find(unbuilt, part) == unbuilt.end(); });
  if (parts.empty()) return;
  std::vector<std::string> names;
  for (const auto& part : parts) names.push_back(title_of(part));
  const auto what = joined(names, ", ") + (names.size() == 1 ? " is" : " are");
  std::vector<std::string> command{(own_prefix() / "../../tools/build").lexically_normal().string()};
  command.insert(command.end(), parts.begin(), parts.end());
  if (!may_build())
    throw UserError(what + " not built yet, and nothing is built here; in a shell: " + joined(command, " "));
  if (!succeeds(command)) throw UserError(what + " not built, and needed here: the lines above say why");
  if (was_replaced())
    throw UserError("sources had changed, and the build has replaced this program: please repeat the command");
}

}  // namespace ddprun
