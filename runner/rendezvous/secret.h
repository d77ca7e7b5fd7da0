// SPDX-License-Identifier: MIT
// What the processes of one run share, and nobody else knows.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

// The secret of a run. Without a token only the id keeps runs apart, which does not stop anybody who can guess it.
struct Secret {
  std::string id;     // of the run: --rdzv-id, or what the engine calls its job
  std::string token;  // launch.token_file or DDPRUN_TOKEN; may be empty
};

// Returns 256 bits that nobody can guess, in hexadecimal digits. Throws std::runtime_error where the system has none.
std::string random_token();

// Reads the token from the first line of the file or, without one, from DDPRUN_TOKEN. Throws UserError for a file that
// cannot be read, or that others may.
Secret read_secret(const std::string& id, const std::filesystem::path& token_file);

// How a launcher hands the secret to its workers.
Secret secret_from_environment();
std::vector<std::pair<std::string, std::string>> secret_variables(const Secret& secret);

}  // namespace ddprun
