// SPDX-License-Identifier: MIT
#include "completion/complete_at_once.h"

#include <unistd.h>

#include <climits>
#include <cstring>
#include <string_view>

namespace ddprun {

void complete_at_once(int argc, char** argv, char** environment) noexcept {
  if (argc < 2 || std::strcmp(argv[1], "complete") != 0 ||
      (argc > 2 && (std::strcmp(argv[2], "--describe") == 0 || std::strcmp(argv[2], "--helps") == 0)))
    return;
  for (char** variable = environment; *variable; ++variable)
    if (std::strncmp(*variable, "DDPRUN_COMPLETE=", 16) == 0) return;
  char program[PATH_MAX] = "";
  if (::readlink("/proc/self/exe", program, sizeof program - 1) < 0) return;
  const std::string_view path(program);
  const auto folder = path.rfind('/', path.rfind('/') - 1);
  constexpr std::string_view kOther = "/libexec/ddprun-complete";
  if (folder == path.npos || folder + kOther.size() >= sizeof program) return;
  std::memcpy(program + folder, kOther.data(), kOther.size() + 1);
  ::execve(program, argv, environment);
}

}  // namespace ddprun
