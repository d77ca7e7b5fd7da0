// SPDX-License-Identifier: MIT
#include "comm/error_exchange.h"

#include "base/communication_error.h"
#include "base/current_op.h"

#include <utility>

namespace ddprun {

ErrorExchange::ErrorExchange(c10::intrusive_ptr<c10d::Store> store, int64_t rank, int64_t world_size,
                             double timeout_seconds)
    : store_(std::move(store)),
      rank_(rank),
      world_size_(world_size),
      timeout_(static_cast<int64_t>(timeout_seconds * 1000)) {}

std::string ErrorExchange::agree(const std::string& my_error) try {
  return world_size_ == 1 ? my_error : meet(my_error);
} catch (const std::exception& error) {
  throw CommunicationError("meeting the other ranks in the store failed: " + cause_of(error));
}

// An error is stored before its rank arrives, so the last to arrive sees it and reports it to all. It also removes what
// the previous meeting left, which nobody reads any more.
std::string ErrorExchange::meet(const std::string& my_error) {
  constexpr CurrentOp kMeeting{.section = nullptr, .name = "meeting the other ranks in the store"};
  const CurrentOpScope scope(kMeeting);
  const auto key = [](int64_t meeting, const char* name) { return std::to_string(meeting) + "/" + name; };
  const auto error = key(meetings_, "error"), outcome = key(meetings_, "outcome");
  if (!my_error.empty()) store_->compareSet(error, "", my_error);
  if (store_->add(key(meetings_, "arrived"), 1) == world_size_) {
    for (const char* name : {"error", "arrived", "outcome"}) {
      if (meetings_ > 0) store_->deleteKey(key(meetings_ - 1, name));
    }
    store_->set(outcome, store_->check({error}) ? store_->get_to_str(error) : "");
  }
  store_->wait({outcome}, timeout_);
  ++meetings_;
  return store_->get_to_str(outcome);
}

}  // namespace ddprun
