// SPDX-License-Identifier: MIT
#include "rendezvous/server.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/spawn.h"
#include "rendezvous/address.h"
#include "rendezvous/control_link.h"
#include "rendezvous/key_values.h"
#include "rendezvous/session.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <future>
#include <map>
#include <set>
#include <thread>

namespace ddprun {

namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

constexpr std::chrono::milliseconds kTick{100};
constexpr size_t kMostUnknownPeers =
    256;  // connections without a finished handshake; beyond that the oldest are dropped
constexpr std::chrono::seconds kGoodbyeTime{1};

Coordinator::Time now() { return std::chrono::steady_clock::now(); }

// Each node and each worker takes a descriptor here. The usual soft limit of 1,024 is meant for programs that call
// select(). Returns how many unknown peers may wait at once: three quarters of the files are left to those who are
// known.
size_t raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kMostUnknownPeers;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  return std::clamp<size_t>(limit.rlim_max / 4, 1, kMostUnknownPeers);
}

tcp::endpoint listening_place(const Endpoint& listen) {
  const auto port = static_cast<uint16_t>(listen.port);
  if (listen.host.empty()) return {tcp::v6(), port};  // IPv4 too
  return {asio::ip::make_address(listen.host), port};
}

}  // namespace

class RendezvousServer::Impl {
 public:
  Impl(const ServerPlan& plan, Coordinator::Begin begin, Coordinator::Notify notify)
      : plan_(plan),
        notify_(notify),
        coordinator_(plan.coordinator, std::move(begin), std::move(notify), now()),
        liveness_(plan.node_timeout_seconds),
        acceptor_(io_),
        timer_(io_),
        pause_(io_),
        result_(promised_.get_future().share()) {
    most_unknown_peers_ = raise_file_limit();
    listen();
    accept();
    tick();
    thread_ = start_without_signals([this] { io_.run(); });
  }

  ~Impl() {
    io_.stop();
    thread_.join();
  }

  int port() const { return acceptor_.local_endpoint().port(); }
  const std::string& leader_key() const { return leader_key_; }

  std::optional<LaunchResult> result() const {
    if (result_.wait_for(kGoodbyeTime) != std::future_status::ready) return std::nullopt;
    return result_.get();
  }

  void wait_for_disconnects() { all_left_.get_future().wait_for(kGoodbyeTime); }

 private:
  void listen() try {
    const auto place = listening_place(plan_.listen);
    acceptor_.open(place.protocol());
    acceptor_.set_option(tcp::acceptor::reuse_address(true));
    acceptor_.bind(place);
    acceptor_.listen();
  } catch (const boost::system::system_error& error) {
    const auto text = plan_.listen.text() + ": " + error.code().message();
    if (error.code() == asio::error::address_in_use) throw PortTaken(text);
    throw std::runtime_error("cannot listen at " + text);
  }

  void accept() {
    acceptor_.async_accept([this](const auto& error, tcp::socket socket) {
      if (error) return accept_later(error.message());
      welcome(std::move(socket));
      accept();
    });
  }

  // Out of descriptors: new connections wait until others have left.
  void accept_later(const std::string& why) {
    if (!std::exchange(full_, true))
      notify_(true,
              "no more nodes and workers can join: " + why + "; on the first node each takes one of `ulimit -Hn`");
    pause_.expires_after(kTick);
    pause_.async_wait([this](const auto& error) {
      if (!error) accept();
    });
  }

  void welcome(tcp::socket socket) {
    boost::system::error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    const int id = ++last_id_;
    make_room_for(id);
    const auto session = std::make_shared<Session>(std::move(socket), plan_.secret);
    sessions_[id] = session;
    session->start([this, id](const Message& message) { take(id, message); },
                   [this, id](const std::string& why) { closed(id, why); });
  }

  void make_room_for(int peer) {
    std::erase_if(unknown_peers_, [this](int id) {
      const auto found = sessions_.find(id);
      return found == sessions_.end() || found->second->known();
    });
    unknown_peers_.push_back(peer);
    if (unknown_peers_.size() <= most_unknown_peers_) return;
    sessions_.at(unknown_peers_.front())->close("it did not introduce itself before many others came");
  }

  void take(int id, const Message& message) {
    if (liveness_.knows(id)) liveness_.seen(id, now());
    if (message.contains("op")) {
      const auto number = whole<int64_t>(message.at("number"));
      keys_.request(id, message, [this, id, number](Message answer) { reply(id, number, std::move(answer)); });
      return;
    }
    handle_message(id, message);
    carry_out_orders();
  }

  void handle_message(int id, const Message& message) {
    if (message.contains("beat")) return;
    if (message.contains("node")) {
      const auto info = node_info(message.at("node"));
      if (info.first && info.leader_key != leader_key_) throw ProtocolError("it claims to be the first node");
      liveness_.seen(id, now());
      coordinator_.joined(id, info, now());
    } else if (message.contains("started")) {
      coordinator_.started(id, whole<int>(message.at("started")));
    } else if (message.contains("failing")) {
      coordinator_.failing(id, whole<int>(message.at("failing")), now());
    } else if (message.contains("ended")) {
      coordinator_.ended(id, attempt_end(message.at("ended"), steady_seconds()), now());
    } else if (message.contains("signal")) {
      coordinator_.signalled(id, signal_of(message.at("signal")), message.at("at_once"), now());
    } else {
      throw ProtocolError("unknown message");
    }
  }

  void reply(int id, int64_t number, Message answer) {
    answer["number"] = number;
    if (const auto found = sessions_.find(id); found != sessions_.end()) found->second->send(answer);
  }

  void closed(int id, const std::string& why) {
    keys_.forget(id);
    liveness_.forget(id);
    sessions_.erase(id);
    coordinator_.lost(id, why, now());
    carry_out_orders();
  }

  void tick() {
    for (const int id : liveness_.silent(now()))
      sessions_.at(id)->cut(log::text("it has been silent for ", plan_.node_timeout_seconds, " s"));
    if (now() >= next_beat_) beat();
    coordinator_.tick(now());
    carry_out_orders();
    timer_.expires_after(kTick);
    timer_.async_wait([this](const auto& error) {
      if (!error) tick();
    });
  }

  void beat() {
    for (const auto& [id, session] : sessions_) {
      if (liveness_.knows(id)) session->send({{"beat", true}});
    }
    next_beat_ = now() + beat_interval(plan_.node_timeout_seconds);
  }

  void carry_out_orders() {
    for (const auto& [id, order] : coordinator_.take_orders()) {
      if (order.kind == Order::Kind::kStart && order.attempt.node == 0)
        keys_.drop(attempt_prefix(order.attempt.number - 1) + "/");
      const auto found = sessions_.find(id);
      if (found == sessions_.end()) continue;
      found->second->send(to_message(order));
      if (order.kind == Order::Kind::kFinish) informed_.insert(id);
    }
    if (!coordinator_.finished()) return;
    if (!std::exchange(finished_, true)) promised_.set_value(coordinator_.result());
    const bool all_gone = std::ranges::none_of(informed_, [this](int id) { return sessions_.contains(id); });
    if (all_gone && !std::exchange(all_left_noted_, true)) all_left_.set_value();
  }

  const ServerPlan plan_;
  const Coordinator::Notify notify_;
  Coordinator coordinator_;
  KeyValues keys_;
  Liveness liveness_;  // of the launchers
  Liveness::Time next_beat_;
  asio::io_context io_;
  tcp::acceptor acceptor_;
  asio::steady_timer timer_, pause_;
  bool full_ = false;
  std::map<int, std::shared_ptr<Session>> sessions_;
  std::deque<int> unknown_peers_;  // the oldest first; some may be known by now
  size_t most_unknown_peers_ = kMostUnknownPeers;
  const std::string leader_key_ = random_token();
  std::set<int> informed_;  // that the run is over
  int last_id_ = 0;
  bool finished_ = false, all_left_noted_ = false;
  std::promise<LaunchResult> promised_;
  std::promise<void> all_left_;
  std::shared_future<LaunchResult> result_;
  std::thread thread_;
};

RendezvousServer::RendezvousServer(const ServerPlan& plan, Coordinator::Begin begin, Coordinator::Notify notify)
    : impl_(std::make_unique<Impl>(plan, std::move(begin), std::move(notify))) {}

RendezvousServer::~RendezvousServer() = default;

int RendezvousServer::port() const { return impl_->port(); }

const std::string& RendezvousServer::leader_key() const { return impl_->leader_key(); }

std::optional<LaunchResult> RendezvousServer::result() const { return impl_->result(); }

void RendezvousServer::wait_for_disconnects() { impl_->wait_for_disconnects(); }

}  // namespace ddprun
