// SPDX-License-Identifier: MIT
#include "report/page.h"

#include <ddprun/digest.h>

#include <cstdint>
#include <stdexcept>

namespace ddprun {
namespace {

using Json = nlohmann::ordered_json;

// In JSON, `<` only occurs within strings; without one, no text can end the script element or open a comment.
std::string script_safe(const Json& data) {
  const auto json = data.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string safe;
  safe.reserve(json.size());
  for (const char byte : json) {
    if (byte == '<') {
      safe += "\\u003c";
    } else {
      safe += byte;
    }
  }
  return safe;
}

std::string joined(std::string_view suffix) {
  std::string text;
  for (const auto& part : page_parts()) {
    if (part.name.ends_with(suffix) && !part.name.starts_with("dygraph")) text += std::string(part.text) + "\n";
  }
  return text;
}

std::string part(std::string_view name) {
  for (const auto& one : page_parts()) {
    if (one.name == name) return std::string(one.text);
  }
  throw std::logic_error("the page has no part " + std::string(name));
}

// Returns the name of a script in the page's policy: sha256-<base64 of the digest>.
std::string name_in_policy(const std::string& script) {
  Sha256 sha;
  sha.update(script.data(), script.size());
  const auto hex = sha.hex();
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return "sha256-" + base64(bytes);
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string safe;
  for (const char byte : text) {
    switch (byte) {
      case '&': safe += "&amp;"; break;
      case '<': safe += "&lt;"; break;
      case '>': safe += "&gt;"; break;
      case '"': safe += "&quot;"; break;
      case '\'': safe += "&#39;"; break;
      default: safe += byte;
    }
  }
  return safe;
}

std::string render_page(const std::string& title, const Json& data, const PageKind& kind) {
  const auto library = part("dygraph.min.js"), program = joined(".js");
  const std::vector<std::pair<std::string_view, std::string>> slots = {
      {"{{mark}}", kind.mark()},
      {"{{policy}}", "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src '" +
                         name_in_policy(library) + "' '" + name_in_policy(program) +
                         "'; form-action 'none'; base-uri 'none'"},
      {"{{title}}", escape_html(title)},
      {"{{style}}", part("dygraph.min.css") + part("page.css")},
      {"{{library}}", library},
      {"{{data}}", script_safe(data)},
      {"{{program}}", program}};
  const auto page = part("page.html");
  std::string html;
  size_t position = 0;
  for (const auto& [slot, text] : slots) {  // in page order, so that inserted text is not searched again
    const auto found = page.find(slot, position);
    if (found == std::string::npos) throw std::logic_error("page.html has no " + std::string(slot));
    html += page.substr(position, found - position) + text;
    position = found + slot.size();
  }
  return html + page.substr(position);
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t j = i; j < i + 3; ++j) group = group << 8 | (j < bytes.size() ? static_cast<uint8_t>(bytes[j]) : 0);
    for (int shift = 18; shift >= 0; shift -= 6) text += kDigits[group >> shift & 63];
  }
  if (const auto missing = (3 - bytes.size() % 3) % 3; missing > 0)
    text.replace(text.size() - missing, missing, missing, '=');
  return text;
}

}  // namespace ddprun
