// SPDX-License-Identifier: MIT
// What --help prints: each command's own lines and examples, at most 80 columns wide where no single word is wider.
#pragma once

namespace CLI {
class App;
}

namespace ddprun {

// To be called once all commands are there.
void use_plain_help(CLI::App& app);

}  // namespace ddprun
