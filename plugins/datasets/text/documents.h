// SPDX-License-Identifier: MIT
// What shows a model which of a window's tokens belong to one document, where several are packed into it.
#pragma once

#include <ddprun/batch.h>

#include <cstdint>
#include <span>

namespace ddprun::text {

// Where one document ends and the next begins.
struct Border {
  int64_t separator = -1;
  bool is_first = false;  // the separator is the first token of its document; else the last one

  // Returns whether a document begins with `token`, which follows `before`.
  bool between(int64_t before, int64_t token) const { return (is_first ? token : before) == separator; }
};

// The extras of B windows of T tokens, by the name of transformers' arguments where it has one:
//   position_ids    [B, T] int64: places within the document, which a window may begin in the middle of
//   document_ids    [B, T] int64: the documents of the window, counted from 0
//   attention_mask  [B, 1, T, T] bool, if it is wanted: whether the first place attends to the second, one of its own
//                   document and not behind it
class DocumentExtras {
 public:
  DocumentExtras(const Border& border, int64_t windows, int64_t context, bool with_mask);

  // Adds the next window, of its context + 1 symbols, and takes those of its targets, context of them, out of the loss
  // that belong to another document than the symbol before.
  void add(std::span<const int64_t> symbols, int64_t* target);

  void give_to(Batch& batch) &&;

 private:
  Border border_;
  int64_t context_;
  at::Tensor positions_, documents_, mask_;
  int64_t row_ = 0;
};

// The shapes of these extras, for DataSpec, and the names of those that are masks.
void promise_documents(DataSpec& spec, int64_t context, bool with_mask);

}  // namespace ddprun::text
