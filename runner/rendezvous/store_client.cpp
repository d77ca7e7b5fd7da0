// SPDX-License-Identifier: MIT
#include "rendezvous/store_client.h"

namespace ddprun {
namespace {

Bytes bytes_of(const Message& message) { return message.get_binary(); }

std::string joined(const Message& request) {
  if (request.contains("key")) return request.at("key");
  std::string text;
  for (const auto& key : request.value("keys", Message::array()))
    text += (text.empty() ? "" : ", ") + key.get<std::string>();
  return text;
}

}  // namespace

StoreClient::StoreClient(const Endpoint& endpoint, const Secret& secret, Milliseconds timeout)
    : connection_(Connection::open(endpoint, secret, Connection::Clock::now() + timeout)) {}

Message StoreClient::ask(Message request, Milliseconds timeout) {
  const std::scoped_lock lock(mutex_);
  const auto deadline = Connection::Clock::now() + timeout;
  request["number"] = ++last_number_;
  connection_.send(request);
  for (;;) {
    auto answer = connection_.receive(deadline);
    if (!answer)
      throw ConnectionLost("the others did not come within " + std::to_string(timeout.count() / 1000) +
                           " s (waited for " + joined(request) + ")");
    if (answer->value("number", int64_t{0}) == last_number_) return *std::move(answer);
  }
}

void StoreClient::set(const std::string& key, const Bytes& value, Milliseconds timeout) {
  ask({{"op", "set"}, {"key", key}, {"value", Message::binary(value)}}, timeout);
}

void StoreClient::append(const std::string& key, const Bytes& value, Milliseconds timeout) {
  ask({{"op", "append"}, {"key", key}, {"value", Message::binary(value)}}, timeout);
}

std::vector<Bytes> StoreClient::get(const std::vector<std::string>& keys, Milliseconds timeout) {
  std::vector<Bytes> values;
  const auto answer = ask({{"op", "get"}, {"keys", keys}}, timeout);
  for (const auto& value : answer.at("values")) values.push_back(bytes_of(value));
  return values;
}

void StoreClient::wait(const std::vector<std::string>& keys, Milliseconds timeout) {
  ask({{"op", "wait"}, {"keys", keys}}, timeout);
}

int64_t StoreClient::add(const std::string& key, int64_t amount, Milliseconds timeout) {
  return ask({{"op", "add"}, {"key", key}, {"amount", amount}}, timeout).at("sum");
}

Bytes StoreClient::compare_set(const std::string& key, const Bytes& expected, const Bytes& desired,
                               Milliseconds timeout) {
  return bytes_of(ask({{"op", "compare_set"},
                       {"key", key},
                       {"expected", Message::binary(expected)},
                       {"desired", Message::binary(desired)}},
                      timeout)
                      .at("value"));
}

bool StoreClient::remove(const std::string& key, Milliseconds timeout) {
  return ask({{"op", "delete"}, {"key", key}}, timeout).at("deleted");
}

bool StoreClient::check(const std::vector<std::string>& keys, Milliseconds timeout) {
  return ask({{"op", "check"}, {"keys", keys}}, timeout).at("there");
}

int64_t StoreClient::count(const std::string& prefix, Milliseconds timeout) {
  return ask({{"op", "count"}, {"prefix", prefix}}, timeout).at("count");
}

}  // namespace ddprun
