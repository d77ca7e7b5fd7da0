// SPDX-License-Identifier: MIT
#include "rendezvous/secret.h"

#include <ddprun/error.h>

#include <openssl/rand.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string_view>

namespace ddprun {
namespace {

constexpr auto kId = "DDPRUN_RENDEZVOUS_ID", kToken = "DDPRUN_TOKEN";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// Removes the blanks that editors and shells add at the ends.
std::string trimmed(const std::string& text) {
  constexpr auto kBlanks = " \t\r\n";
  const auto begin = text.find_first_not_of(kBlanks);
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

std::string read_token(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const auto token = trimmed(line);
  if (token.empty())
    throw UserError("launch.token_file: " + path.string() + " cannot be read, or its first line is empty");
  std::error_code error;
  const auto others = std::filesystem::perms::group_all | std::filesystem::perms::others_all;
  if ((std::filesystem::status(path, error).permissions() & others) != std::filesystem::perms::none)
    throw UserError("launch.token_file: " + path.string() + " is accessible to other users; run chmod 600 " +
                    path.string());
  return token;
}

}  // namespace

std::string random_token() {
  std::array<unsigned char, 32> bytes;
  if (RAND_bytes(bytes.data(), bytes.size()) != 1) throw std::runtime_error("no random numbers from OpenSSL");
  std::string text;
  for (const unsigned char byte : bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    text += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return text;
}

Secret read_secret(const std::string& id, const std::filesystem::path& token_file) {
  return {.id = id, .token = token_file.empty() ? trimmed(variable(kToken)) : read_token(token_file)};
}

Secret secret_from_environment() { return {.id = variable(kId), .token = variable(kToken)}; }

std::vector<std::pair<std::string, std::string>> secret_variables(const Secret& secret) {
  return {{kId, secret.id}, {kToken, secret.token}};
}

}  // namespace ddprun
