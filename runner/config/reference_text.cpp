// SPDX-License-Identifier: MIT
#include "config/reference_text.h"

namespace ddprun {
namespace {

void add_literal(std::vector<TextPart>& parts, std::string_view text) {
  if (parts.empty() || parts.back().is_reference) parts.push_back({});
  parts.back().text += text;
}

}  // namespace

std::vector<TextPart> split_references(std::string_view text) {
  constexpr std::string_view kOpen = "${";
  std::vector<TextPart> parts;
  if (text.empty()) add_literal(parts, "");
  while (!text.empty()) {
    const auto open = text.find(kOpen);
    if (open == text.npos) {
      add_literal(parts, text);
      break;
    }
    const bool escaped = open > 0 && text[open - 1] == '\\';
    if (escaped) {
      const bool names_secret = text.substr(open).starts_with(kSecretOpen);  // unescaped where secrets are put in
      add_literal(parts, text.substr(0, names_secret ? open : open - 1));
      add_literal(parts, kOpen);
      text.remove_prefix(open + kOpen.size());
      continue;
    }
    if (open > 0) add_literal(parts, text.substr(0, open));
    text.remove_prefix(open + kOpen.size());
    const auto close = text.find('}');
    const auto reference = text.substr(0, close);
    if (close == text.npos) throw BadReference{"${" + std::string(text) + ": the } is missing"};
    if (reference.find(kOpen) != reference.npos)
      throw BadReference{"references cannot be nested: ${" + std::string(text)};
    parts.push_back({std::string(reference), true});
    text.remove_prefix(close + 1);
  }
  return parts;
}

}  // namespace ddprun
