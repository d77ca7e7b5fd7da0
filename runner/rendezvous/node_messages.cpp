// SPDX-License-Identifier: MIT
#include "rendezvous/node_messages.h"

#include "base/log.h"

#include <csignal>

namespace ddprun {
namespace {

constexpr int kMostWorkers = 65'536;  // per node

// Machines' clocks differ, so an age stands for a time; null for one that nobody noted.
Message age_of(double time, double now) { return time > 0 ? Message(now - time) : Message(); }

double time_of(const Message& age, double now) { return age.is_null() ? 0 : now - age.get<double>(); }

Message failure_message(const WorkerFailure& failure, double now) {
  auto message = message_of(failure);
  message["time"] = age_of(failure.time, now);
  return message;
}

WorkerFailure failure_of(Message message, double now) {
  message["time"] = time_of(message.at("time"), now);
  return record_of<WorkerFailure>(message);
}

Message worker_message(const WorkerEnd& end, double now) {
  Message message{{"rank", end.rank},
                  {"host", end.host},
                  {"exit_code", end.exit_code},
                  {"rolls_back", end.rolls_back},
                  {"signal", end.signal},
                  {"killed_by_launcher", end.killed_by_launcher},
                  {"age", age_of(end.time, now)},
                  {"log", text_message(end.log.string())},
                  {"last_lines", Message::array()}};
  if (end.failure) message["failure"] = failure_message(*end.failure, now);
  if (const auto& still = end.stall)
    message["stall"] = {static_cast<int>(still->activity), still->step, still->seconds, std::string(1, still->state),
                        text_message(still->doing),        still->waits};
  for (const auto& line : end.last_lines) message["last_lines"].push_back(text_message(line));
  return message;
}

WorkerEnd worker_of(const Message& message, double now) {
  WorkerEnd end{.rank = whole<int>(message.at("rank")),
                .host = message.at("host"),
                .exit_code = whole<int>(message.at("exit_code")),
                .rolls_back = message.at("rolls_back"),
                .signal = signal_of(message.at("signal")),
                .killed_by_launcher = message.at("killed_by_launcher"),
                .time = time_of(message.at("age"), now),
                .log = text_of(message.at("log"))};
  if (message.contains("stall")) {
    const auto& still = message.at("stall");
    const auto state = still.at(3).get<std::string>();
    if (state.size() != 1) throw ProtocolError("a process's state is one letter");
    end.stall = Stall{static_cast<Activity>(whole<int>(still.at(0))),
                      whole<int64_t>(still.at(1)),
                      still.at(2),
                      state.front(),
                      text_of(still.at(4)),
                      still.at(5)};
  }
  if (message.contains("failure")) end.failure = failure_of(message.at("failure"), now);
  for (const auto& line : message.at("last_lines")) end.last_lines.push_back(text_of(line));
  return end;
}

}  // namespace

int signal_of(const Message& message) {
  const int signal = whole<int>(message);
  if (signal < 0 || signal >= NSIG) throw ProtocolError(log::text("there is no signal ", signal));
  return signal;
}

Message to_message(const NodeInfo& info) {
  return {
      {"host", info.host},     {"address", info.address}, {"rank", info.rank.value_or(-1)}, {"workers", info.workers},
      {"device", info.device}, {"first", info.first},     {"leader_key", info.leader_key}};
}

NodeInfo node_info(const Message& message) {
  return reading([&] {
    const int rank = whole<int>(message.at("rank"));
    const int workers = whole<int>(message.at("workers"));
    if (workers < 1 || workers > kMostWorkers) throw ProtocolError(log::text("a node of ", workers, " workers"));
    return NodeInfo{.host = message.at("host"),
                    .address = message.at("address"),
                    .rank = rank < 0 ? std::nullopt : std::optional(rank),
                    .workers = workers,
                    .device = message.at("device"),
                    .first = message.at("first"),
                    .leader_key = message.at("leader_key")};
  });
}

Message to_message(const AttemptEnd& end, double now) {
  Message message{{"attempt", end.attempt},
                  {"workers", Message::array()},
                  {"stop_signal", end.stop_signal},
                  {"at_once", end.at_once},
                  {"hung", end.hung}};
  for (const auto& worker : end.workers) message["workers"].push_back(worker_message(worker, now));
  return message;
}

AttemptEnd attempt_end(const Message& message, double now) {
  return reading([&] {
    AttemptEnd end{.attempt = whole<int>(message.at("attempt")),
                   .stop_signal = signal_of(message.at("stop_signal")),
                   .at_once = message.at("at_once"),
                   .hung = message.at("hung")};
    for (const auto& worker : message.at("workers")) end.workers.push_back(worker_of(worker, now));
    return end;
  });
}

Message to_message(const Order& order) {
  Message message{
      {"order", static_cast<int>(order.kind)}, {"exit_code", order.exit_code}, {"text", text_message(order.text)}};
  if (order.kind != Order::Kind::kStart) return message;
  message["attempt"] = message_of(order.attempt);
  message["experiment"] = Message::object();
  for (const auto& [key, value] : order.experiment) message["experiment"][key] = text_message(value);
  return message;
}

Order order(const Message& message) {
  return reading([&] {
    Order order{.kind = static_cast<Order::Kind>(whole<int>(message.at("order"))),
                .exit_code = whole<int>(message.at("exit_code")),
                .text = text_of(message.at("text"))};
    if (order.kind != Order::Kind::kStart) return order;
    order.attempt = record_of<Attempt>(message.at("attempt"));
    for (const auto& [key, value] : message.at("experiment").items()) order.experiment[key] = text_of(value);
    return order;
  });
}

}  // namespace ddprun
