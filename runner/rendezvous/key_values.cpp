// SPDX-License-Identifier: MIT
#include "rendezvous/key_values.h"

#include <algorithm>
#include <charconv>
#include <iterator>

namespace ddprun {
namespace {

Bytes value_of(const Message& request, const char* name) { return request.at(name).get_binary(); }

}  // namespace

void KeyValues::request(int asker, const Message& request, Answer reply) {
  reading([&] { carry_out(asker, request, std::move(reply)); });
}

void KeyValues::carry_out(int asker, const Message& request, Answer reply) {
  const auto op = request.at("op").get<std::string>();
  if (op == "set") {
    store(request.at("key"), value_of(request, "value"));
    reply(Message::object());
  } else if (op == "get" || op == "wait") {
    const auto keys = request.at("keys").get<std::vector<std::string>>();
    wait({.asker = asker, .missing = keys, .answer = std::move(reply), .wants_values = op == "get", .keys = keys});
  } else if (op == "add") {
    reply({{"sum", add(request.at("key"), whole<int64_t>(request.at("amount")))}});
  } else if (op == "compare_set") {
    reply({{"value", Message::binary(compare_and_set(request.at("key"), value_of(request, "expected"),
                                                     value_of(request, "desired")))}});
  } else if (op == "append") {
    auto value = values_[request.at("key")];
    const auto more = value_of(request, "value");
    value.insert(value.end(), more.begin(), more.end());
    store(request.at("key"), std::move(value));
    reply(Message::object());
  } else if (op == "delete") {
    reply({{"deleted", values_.erase(request.at("key").get<std::string>()) > 0}});
  } else if (op == "check") {
    const auto keys = request.at("keys").get<std::vector<std::string>>();
    reply({{"there", std::ranges::all_of(keys, [this](const auto& key) { return values_.contains(key); })}});
  } else if (op == "count") {
    reply({{"count", count(request.at("prefix"))}});
  } else {
    throw ProtocolError("unknown operation " + op);
  }
}

void KeyValues::forget(int asker) {
  std::erase_if(waiting_, [asker](const auto& entry) { return entry.second.asker == asker; });
}

void KeyValues::drop(const std::string& prefix) {
  for (auto at = values_.lower_bound(prefix); at != values_.end() && at->first.starts_with(prefix);) {
    at = values_.erase(at);
  }
}

int64_t KeyValues::count(const std::string& prefix) const {
  const auto first = values_.lower_bound(prefix);
  const auto begins_so = [&prefix](const auto& entry) { return entry.first.starts_with(prefix); };
  return std::distance(first, std::find_if_not(first, values_.end(), begins_so));
}

void KeyValues::store(const std::string& key, Bytes value) {
  values_[key] = std::move(value);
  std::vector<Waiting> woken;
  const auto [first, last] = waiting_.equal_range(key);
  for (auto at = first; at != last; ++at) woken.push_back(std::move(at->second));
  waiting_.erase(first, last);
  for (auto& waiting : woken) wait(std::move(waiting));
}

void KeyValues::wait(Waiting waiting) {
  if (has_all(waiting)) return answer(waiting);
  auto key = waiting.missing.back();
  waiting_.emplace(std::move(key), std::move(waiting));
}

bool KeyValues::has_all(Waiting& waiting) const {
  while (!waiting.missing.empty() && values_.contains(waiting.missing.back())) waiting.missing.pop_back();
  return waiting.missing.empty();
}

void KeyValues::answer(const Waiting& waiting) const {
  auto values = Message::array();
  if (waiting.wants_values) {
    for (const auto& key : waiting.keys) values.push_back(Message::binary(values_.at(key)));
  }
  waiting.answer({{"values", std::move(values)}});
}

// A counter is stored as decimal digits, as in c10d's stores, so that get can read it.
int64_t KeyValues::add(const std::string& key, int64_t amount) {
  int64_t sum = 0;
  if (const auto found = values_.find(key); found != values_.end()) {
    const auto* begin = reinterpret_cast<const char*>(found->second.data());
    std::from_chars(begin, begin + found->second.size(), sum);
  }
  if (__builtin_add_overflow(sum, amount, &sum)) throw ProtocolError("the counter overflows");
  const auto digits = std::to_string(sum);
  store(key, {digits.begin(), digits.end()});
  return sum;
}

// Works like TCPStore: an absent key takes `desired` if nothing is expected; the answer is what is there then, or what
// was expected.
Bytes KeyValues::compare_and_set(const std::string& key, const Bytes& expected, Bytes desired) {
  const auto found = values_.find(key);
  if (found == values_.end() && !expected.empty()) return expected;
  if (found == values_.end() || found->second == expected) {
    store(key, desired);
    return desired;
  }
  return found->second;
}

}  // namespace ddprun
