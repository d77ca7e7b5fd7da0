// SPDX-License-Identifier: MIT
#include "documents.h"

#include <ddprun/objective.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

namespace ddprun::text {
namespace {

constexpr auto kPositions = "position_ids", kDocuments = "document_ids", kMask = "attention_mask";

}  // namespace

DocumentExtras::DocumentExtras(const Border& border, int64_t windows, int64_t context, bool with_mask)
    : border_(border),
      context_(context),
      positions_(at::empty({windows, context}, at::kLong)),
      documents_(at::empty({windows, context}, at::kLong)) {
  if (with_mask) mask_ = at::zeros({windows, 1, context, context}, at::kBool);
}

void DocumentExtras::add(std::span<const int64_t> symbols, int64_t* target) {
  auto* const positions = positions_.mutable_data_ptr<int64_t>() + row_ * context_;
  auto* const documents = documents_.mutable_data_ptr<int64_t>() + row_ * context_;
  auto* const mask = mask_.defined() ? mask_.mutable_data_ptr<bool>() + row_ * context_ * context_ : nullptr;
  int64_t begin = 0, document = 0;
  for (int64_t i = 0; i < context_; ++i) {
    positions[i] = i - begin;
    documents[i] = document;
    if (mask) std::fill(mask + i * context_ + begin, mask + i * context_ + i + 1, true);
    if (!border_.between(symbols[static_cast<size_t>(i)], symbols[static_cast<size_t>(i) + 1])) continue;
    target[i] = kIgnoredClass;
    begin = i + 1;
    ++document;
  }
  ++row_;
}

void DocumentExtras::give_to(Batch& batch) && {
  batch.extras.emplace(kPositions, std::move(positions_));
  batch.extras.emplace(kDocuments, std::move(documents_));
  if (mask_.defined()) batch.extras.emplace(kMask, std::move(mask_));
}

void promise_documents(DataSpec& spec, int64_t context, bool with_mask) {
  spec.extras[kPositions] = spec.extras[kDocuments] = {context};
  spec.masks = {kDocuments};
  if (!with_mask) return;
  spec.extras[kMask] = {1, context, context};
  spec.masks.emplace_back(kMask);
}

}  // namespace ddprun::text
