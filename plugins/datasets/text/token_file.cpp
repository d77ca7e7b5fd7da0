// SPDX-License-Identifier: MIT
#include "token_file.h"

#include <ddprun/error.h>

#include <nlohmann/json.hpp>
#include <strict_json.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cstring>
#include <exception>
#include <string_view>

namespace ddprun::text {
namespace {

static_assert(std::endian::native == std::endian::little, "tokens are read as they lie in the file");

using Json = nlohmann::json;
using Path = std::filesystem::path;

constexpr uint64_t kHeaderBytes = 1024;
constexpr int64_t kBlocks = 64, kBlock = 1024;  // tokens that are looked at before a file is believed

struct HeaderKind {
  int32_t magic, version;
  int64_t bits;
};
constexpr std::array kHeaderKinds = {HeaderKind{20240520, 1, 16}, HeaderKind{20240801, 7, 32}};  // llm.c's

Path note_of(const Path& file) { return file.string() + ".json"; }

// Returns a number of the note; 0 if it has none of that name.
int64_t number_in(const Json& note, const char* name, const Path& file) {
  const auto found = note.find(name);
  if (found == note.end()) return 0;
  if (!found->is_number_integer() || found->get<int64_t>() < 1)
    throw UserError(file.string() + ": " + name + " is " + describe(*found) + ", expected a number of at least 1");
  return found->get<int64_t>();
}

int64_t bits_in(const Json& note, const Path& file) {
  const auto found = note.find("dtype");
  if (found == note.end() || *found == "") return 0;
  if (*found == "uint16") return 16;
  if (*found == "uint32") return 32;
  const auto written = found->is_string() ? "\"" + found->get<std::string>().substr(0, 20) + "\"" : describe(*found);
  throw UserError(file.string() + ": dtype is " + written + ", expected \"uint16\" or \"uint32\"");
}

template <class Token>
Token token_at(const uint8_t* tokens, int64_t place) {
  Token token;
  std::memcpy(&token, tokens + place * static_cast<int64_t>(sizeof token), sizeof token);
  return token;
}

// Calls `look` with some of `count` places, in blocks that are spread evenly: with all if there are few.
template <class Look>
void look_at_some(int64_t count, Look look) {
  const bool few = count <= kBlocks * kBlock;
  for (int64_t i = 0; i < std::min(count, kBlocks * kBlock); ++i)
    look(few ? i : i / kBlock * ((count - kBlock) / (kBlocks - 1)) + i % kBlock);
}

bool is_text(std::string_view bytes) {
  return std::ranges::all_of(bytes, [](unsigned char c) { return c >= ' ' || std::isspace(c); });
}

// How large the words of 16 bits get in each place of four.
struct Largest {
  std::array<uint16_t, 4> words{};

  uint16_t even() const { return std::max(words[0], words[2]); }
  uint16_t odd() const { return std::max(words[1], words[3]); }
};

}  // namespace

TokenFile::TokenFile(const Path& path, const TokenForm& options) : file_(map_file(path)), form_(options) {
  uint64_t begin = 0;
  if (std::filesystem::exists(note_of(path))) {
    read_note();
  } else {
    begin = read_header();
  }
  if (form_.bits == 0)
    file_.refuse("nothing says how many bits a token has: there is no " + note_of(path).filename().string() +
                 ", and it has no header of llm.c; set dataset.dtype to uint16 (nanoGPT's) or uint32");
  if (form_.vocabulary == 0)
    file_.refuse("nothing says how large its vocabulary is: set dataset.vocabulary (50257 for GPT-2's)");
  const auto bytes = static_cast<uint64_t>(form_.bits / 8);
  const uint64_t rest = file_.size - begin;
  if (rest % bytes != 0)
    file_.refuse(std::to_string(rest) + " bytes are no whole number of tokens of " + std::to_string(bytes) +
                 " bytes: it is cut short, or dataset.dtype is another");
  const auto found = static_cast<int64_t>(rest / bytes);
  if (size_ != 0 && size_ != found)
    file_.refuse("it should hold " + std::to_string(size_) + " tokens and holds " + std::to_string(found) +
                 (found < size_ ? ": it is cut short" : "") + "; write it again");
  const bool is_width_known = size_ != 0;  // where the number of tokens is given, it fits
  size_ = found;
  tokens_ = file_.bytes.get() + begin;
  if (!is_width_known) {
    require_no_other_format();
    require_width();
  }
  look_at_some(size_, [this](int64_t place) { require_known(token(place), place); });
}

void TokenFile::require_no_other_format() const {
  struct Known {
    std::string_view first;
    const char* name;
  };
  constexpr std::array kKnown{Known{"\x93NUMPY", "a .npy file; write its numbers alone, with array.tofile()"},
                              Known{"PK\3\4", "a zip archive; unpack it"}, Known{"\x1f\x8b", "compressed; unpack it"},
                              Known{"\x28\xb5\x2f\xfd", "compressed; unpack it"}};
  for (const auto& known : kKnown) {
    if (file_.text().starts_with(known.first)) file_.refuse(std::string("is ") + known.name);
  }
  if (is_text(file_.text().substr(0, kHeaderBytes)) && is_text(file_.text().substr(file_.size / 2, kHeaderBytes)))
    file_.refuse(
        "is a text, not a file of tokens: docs/data.md#tokens shows how to make one, or choose the dataset text");
}

// Numbers of more bits than are read look like tokens each followed by zeros, or by small numbers.
void TokenFile::require_width() const {
  const int64_t words_of_token = form_.bits / 16;
  const int64_t groups = size_ * words_of_token / 4;
  if (groups < 8) return;  // too few to judge
  Largest largest;
  look_at_some(groups, [&](int64_t group) {
    for (size_t i = 0; i < 4; ++i)
      largest.words[i] = std::max(largest.words[i], token_at<uint16_t>(tokens_, group * 4 + static_cast<int64_t>(i)));
  });
  const bool are_64 = largest.words[2] == 0 && largest.words[3] == 0 && largest.words[0] > 0;
  const bool are_32 = form_.bits == 16 && largest.odd() * 256 < largest.even();
  if (!are_64 && !are_32) return;
  const std::string found =
      "read as uint" + std::to_string(form_.bits) + ", every second of its numbers is " +
      (largest.odd() == 0 || form_.bits == 32 ? "0" : "below " + std::to_string(largest.odd() + 1));
  file_.refuse(found + (are_64 ? ": it seems to hold int64, which is not read; write it as uint16 or uint32, with "
                                 "array.astype('uint32').tofile()"
                               : ": it seems to hold uint32; set dataset.dtype=uint32"));
}

void TokenFile::read_note() {
  const auto name = note_of(file_.path);
  Json note;
  try {
    note = parse_strict_json(map_file(name).text());
  } catch (const UserError&) {
    throw;
  } catch (const std::exception& error) {
    throw UserError(name.string() + ": " + error.what() + "; write it again");
  }
  if (!note.is_object()) throw UserError(name.string() + ": not a JSON object; write it again");
  size_ = number_in(note, "tokens", name);
  agree(form_.bits, bits_in(note, name), "dtype", name.string());
  agree(form_.vocabulary, number_in(note, "vocabulary", name), "vocabulary", name.string());
  const auto separator = note.find("separator");
  if (separator == note.end()) return;
  if (!separator->is_number_integer() || separator->get<int64_t>() < 0 || separator->get<int64_t>() >= form_.vocabulary)
    throw UserError(name.string() + ": separator is " + describe(*separator) + ", expected a token below " +
                    std::to_string(form_.vocabulary));
  separator_ = separator->get<int64_t>();
}

bool TokenFile::has(int64_t wanted) const {
  for (int64_t place = 0; place < size_; ++place) {
    if (token(place) == wanted) return true;
  }
  return false;
}

int64_t TokenFile::count(int64_t wanted, int64_t first, int64_t end) const {
  int64_t found = 0;
  for (int64_t place = first; place < end; ++place) found += static_cast<int64_t>(token(place) == wanted);
  return found;
}

uint64_t TokenFile::read_header() {
  if (file_.size < kHeaderBytes) return 0;
  std::array<int32_t, 3> words{};
  std::memcpy(words.data(), file_.bytes.get(), sizeof words);
  for (const auto& kind : kHeaderKinds) {
    if (kind.magic != words[0] || kind.version != words[1]) continue;
    agree(form_.bits, kind.bits, "dtype", file_.path.string() + ": its header");
    size_ = words[2];
    return kHeaderBytes;
  }
  return 0;
}

void TokenFile::agree(int64_t& ours, int64_t given, const char* what, const std::string& source) {
  if (ours != 0 && given != 0 && ours != given) {
    const std::string type = std::string(what) == "dtype" ? "uint" : "";
    throw UserError(source + " says " + type + std::to_string(given) + ", dataset." + what + " " + type +
                    std::to_string(ours) + "; leave the option out");
  }
  if (given != 0) ours = given;
}

void TokenFile::copy(int64_t first, std::span<int64_t> out) const {
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t place = first + static_cast<int64_t>(i);
    out[i] = token(place);
    require_known(out[i], place);
  }
}

int64_t TokenFile::token(int64_t place) const {
  return form_.bits == 16 ? int64_t{token_at<uint16_t>(tokens_, place)} : token_at<uint32_t>(tokens_, place);
}

void TokenFile::require_known(int64_t token, int64_t place) const {
  if (token < form_.vocabulary) return;
  file_.refuse("token " + std::to_string(place) + " is " + std::to_string(token) + ", but a vocabulary of " +
               std::to_string(form_.vocabulary) +
               " ends before it: is it of another tokenizer, or another dataset.dtype?");
}

void TokenFile::add_to(DataDigest& digest) const {
  digest.add_some(tokens_, static_cast<uint64_t>(size_ * form_.bits / 8));
}

}  // namespace ddprun::text
