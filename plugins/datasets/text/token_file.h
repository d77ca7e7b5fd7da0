// SPDX-License-Identifier: MIT
// A file of tokens, mapped: one number after the other, little-endian, of 16 or 32 bits.
//
// What says how to read it, the first of these that there is:
//   FILE.json    {"dtype": "uint16", "tokens": 301966, "vocabulary": 50257}; with
//                "separator", the token behind each document
//   its header   1,024 bytes, those of llm.c: 256 int32, of which the first three are 20240520, 1 and the number of
//                tokens for 16 bits, or 20240801, 7 and that number for 32
//   the options  dataset.dtype and dataset.vocabulary, for nanoGPT's files, which are bare numbers
#pragma once

#include <ddprun/data_digest.h>
#include <ddprun/files.h>

#include <cstdint>
#include <filesystem>
#include <span>

namespace ddprun::text {

// What the options say; 0 where they say nothing.
struct TokenForm {
  int64_t bits = 0;        // of a token: 16 or 32
  int64_t vocabulary = 0;  // all tokens are below it
};

class TokenFile {
 public:
  // Maps the file. Throws UserError, with the file, where what says how to read it contradicts the file or the options,
  // where nothing says it, or where some tokens, spread evenly, are not of the vocabulary or look like those of another
  // width.
  TokenFile(const std::filesystem::path& path, const TokenForm& options);

  const std::filesystem::path& path() const { return file_.path; }
  int64_t size() const { return size_; }  // in tokens
  int64_t vocabulary() const { return form_.vocabulary; }
  int64_t separator() const { return separator_; }  // as FILE.json says; -1: it does not

  // Return whether it has this token, and how often it stands in the tokens from `first` to before `end`: both read
  // the file.
  bool has(int64_t token) const;
  int64_t count(int64_t token, int64_t first, int64_t end) const;

  // Copies `out.size()` tokens, the first of them number `first`. Throws UserError with its place for a token that is
  // not of the vocabulary. Called from several threads.
  void copy(int64_t first, std::span<int64_t> out) const;

  // Adds the tokens to a digest: their number, and some of them.
  void add_to(DataDigest& digest) const;

 private:
  void read_note();
  uint64_t read_header();  // returns its bytes
  void require_no_other_format() const;
  void require_width() const;
  int64_t token(int64_t place) const;
  void require_known(int64_t token, int64_t place) const;
  void agree(int64_t& ours, int64_t given, const char* what, const std::string& source);

  MappedFile file_;
  TokenForm form_;
  const uint8_t* tokens_ = nullptr;
  int64_t size_ = 0, separator_ = -1;
};

}  // namespace ddprun::text
