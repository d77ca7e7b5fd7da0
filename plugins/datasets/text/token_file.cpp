// SPDX-License-Identifier: MIT
#include "token_file.h"

#include <ddprun/error.h>

#include <nlohmann/json.hpp>

#include <array>
#include <bit>
#include <cstring>
#include <fstream>

namespace ddprun::text {
namespace {

static_assert(std::endian::native == std::endian::little, "tokens are read as they lie in the file");

using Json = nlohmann::json;
using Path = std::filesystem::path;

constexpr uint64_t kHeaderBytes = 1024;

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
    throw UserError(file.string() + ": " + name + " is " + found->dump() + ", expected a number of at least 1");
  return found->get<int64_t>();
}

int64_t bits_in(const Json& note, const Path& file) {
  const auto dtype = note.contains("dtype") ? note["dtype"] : Json("");
  if (dtype == "") return 0;
  if (dtype == "uint16") return 16;
  if (dtype == "uint32") return 32;
  throw UserError(file.string() + ": dtype is " + dtype.dump() + ", expected \"uint16\" or \"uint32\"");
}

template <class Token>
Token token_at(const uint8_t* tokens, int64_t place) {
  Token token;
  std::memcpy(&token, tokens + place * static_cast<int64_t>(sizeof token), sizeof token);
  return token;
}

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
  size_ = found;
  tokens_ = file_.bytes.get() + begin;
}

void TokenFile::read_note() {
  const auto name = note_of(file_.path);
  std::ifstream stream(name, std::ios::binary);
  const auto note = Json::parse(stream, nullptr, /*allow_exceptions=*/false);
  if (!note.is_object()) throw UserError(name.string() + ": not a JSON object; write it again with ddprun-convert");
  size_ = number_in(note, "tokens", name);
  agree(form_.bits, bits_in(note, name), "dtype", name.string());
  agree(form_.vocabulary, number_in(note, "vocabulary", name), "vocabulary", name.string());
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

void TokenFile::agree(int64_t& ours, int64_t told, const char* what, const std::string& teller) {
  if (ours != 0 && told != 0 && ours != told) {
    const std::string type = std::string(what) == "dtype" ? "uint" : "";
    throw UserError(teller + " says " + type + std::to_string(told) + ", dataset." + what + " " + type +
                    std::to_string(ours) + "; leave the option out");
  }
  if (told != 0) ours = told;
}

void TokenFile::copy(int64_t first, std::span<int64_t> out) const {
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t place = first + static_cast<int64_t>(i);
    out[i] = form_.bits == 16 ? int64_t{token_at<uint16_t>(tokens_, place)} : token_at<uint32_t>(tokens_, place);
    if (out[i] >= form_.vocabulary)
      file_.refuse("token " + std::to_string(place) + " is " + std::to_string(out[i]) + ", but a vocabulary of " +
                   std::to_string(form_.vocabulary) +
                   " ends before it: is it of another tokenizer, or another dataset.dtype?");
  }
}

}  // namespace ddprun::text
