// SPDX-License-Identifier: MIT
#include "dist/error_exchange.h"

#include "dist/communication_error.h"
#include "launch/doing.h"

#include <utility>

namespace ddprun {
namespace {

std::string note_of(int64_t rank, int64_t meeting) {
  return "note/" + std::to_string(meeting % 2) + "/" + std::to_string(rank);
}

}  // namespace

ErrorExchange::ErrorExchange(c10::intrusive_ptr<c10d::Store> store, int64_t rank, int64_t world_size,
                             double timeout_seconds)
    : store_(std::move(store)),
      rank_(rank),
      world_size_(world_size),
      timeout_(static_cast<int64_t>(timeout_seconds * 1000)) {}

ErrorExchange::Outcome ErrorExchange::agree(const std::string& my_error, const std::string& my_note) try {
  if (world_size_ == 1) return {my_error, {my_note}};
  return meet(my_error, my_note);
} catch (const std::exception& error) {
  throw CommunicationError("meeting the other ranks in the store failed: " + cause_of(error));
}

// An error is there before its rank has arrived, so the last to arrive sees it, and tells it to all. It also removes what the
// meeting before has left: nobody reads that any more. A note, too, is there before its rank has arrived; it stays until the one of the
// meeting after the next takes its place: rank 0 has read it before it came to the next.
ErrorExchange::Outcome ErrorExchange::meet(const std::string& my_error, const std::string& my_note) {
  constexpr Doing kMeeting{.section = nullptr, .name = "meeting the other ranks in the store"};
  const DoingScope scope(kMeeting);
  const auto key = [](int64_t meeting, const char* name) { return std::to_string(meeting) + "/" + name; };
  const auto error = key(meetings_, "error"), outcome = key(meetings_, "outcome");
  if (!my_error.empty()) store_->compareSet(error, "", my_error);
  if (!my_note.empty() && rank_ != 0) store_->set(note_of(rank_, meetings_), my_note);
  if (store_->add(key(meetings_, "arrived"), 1) == world_size_) {
    for (const char* name : {"error", "arrived", "outcome"}) {
      if (meetings_ > 0) store_->deleteKey(key(meetings_ - 1, name));
    }
    store_->set(outcome, store_->check({error}) ? store_->get_to_str(error) : "");
  }
  store_->wait({outcome}, timeout_);
  Outcome agreed{store_->get_to_str(outcome), {}};
  if (rank_ == 0 && agreed.error.empty() && !my_note.empty()) agreed.notes = notes(my_note);
  ++meetings_;
  return agreed;
}

std::vector<std::string> ErrorExchange::notes(const std::string& mine) {
  std::vector<std::string> keys, notes{mine};
  for (int64_t rank = 1; rank < world_size_; ++rank) keys.push_back(note_of(rank, meetings_));
  for (const auto& bytes : store_->multiGet(keys)) notes.emplace_back(bytes.begin(), bytes.end());
  return notes;
}

}  // namespace ddprun
