// SPDX-License-Identifier: MIT
// tar archives for the tests, right and wrong.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace ddprun::test {

// A member with its header; `type` is tar's: '0' file, '2' symbolic link, '5' folder. `claimed` is the size that the
// header tells, the content's own where it is negative; `target` is what a link points to.
inline std::string tar_member(const std::string& name, const std::string& content, char type = '0',
                              int64_t claimed = -1, const std::string& target = "target") {
  std::string header(512, '\0');
  const auto put = [&](size_t at, const std::string& text) { header.replace(at, text.size(), text); };
  const auto octal = [](uint64_t number, int digits) {
    char text[32];
    std::snprintf(text, sizeof text, "%0*llo", digits, static_cast<unsigned long long>(number));
    return std::string(text);
  };
  put(0, name);
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  put(124, octal(claimed < 0 ? content.size() : static_cast<uint64_t>(claimed), 11));
  put(136, octal(0, 11));
  put(148, std::string(8, ' '));
  header[156] = type;
  if (type == '1' || type == '2') put(157, target);
  put(257, std::string("ustar\0", 6) + "00");
  unsigned sum = 0;
  for (const char byte : header) sum += static_cast<uint8_t>(byte);
  put(148, octal(sum, 6) + std::string(1, '\0'));
  return header + content + std::string((512 - content.size() % 512) % 512, '\0');
}

inline const std::string kTarEnd(1024, '\0');

}  // namespace ddprun::test
