// SPDX-License-Identifier: MIT
#include "rendezvous/simulated_run.h"

#include "base/log.h"

#include <algorithm>
#include <csignal>
#include <limits>

namespace ddprun::testing {
namespace {

constexpr double kNodeTimeout = 10, kCollectiveTimeout = 30;
constexpr int kMostRollbacks = 3;
constexpr double kTick = 0.5;
constexpr double kLongest = 5000;  // no run of these plans lasts so long
constexpr double kSlowest = 0.3;   // of messages, while nothing is cut off
constexpr double kDay = 86'400;
constexpr double kForever = std::numeric_limits<double>::infinity();

}  // namespace

bool VirtualTime::step() {
  if (queue_.empty()) return false;
  const auto event = queue_.top();
  queue_.pop();
  now_ = event.at;
  event.act();
  return true;
}

SimulatedRun::SimulatedRun(uint64_t seed) : random_(seed), liveness_(kNodeTimeout) {
  draw_plan();
  coordinator_ = std::make_unique<Coordinator>(
      plan_, [this](int world_size, int nodes) { return begin(world_size, nodes); },
      [this](bool, const std::string& text) { say("says: " + text); }, time_.time());
  for (int index = 0; index < plan_.max_nodes; ++index) {
    machines_.push_back(std::make_unique<Machine>());
    auto& machine = *machines_.back();
    machine.index = index;
    machine.clock = uniform(1, 2 * kDay);
    time_.in(index == 0 ? 0 : uniform(0, 20), [this, &machine] { join(machine); });
  }
  draw_faults();
  time_.in(kTick, [this] { server_tick(); });
}

void SimulatedRun::draw_plan() {
  plan_.max_nodes = pick(1, 4);
  plan_.min_nodes = pick(0, 1) == 0 ? plan_.max_nodes : pick(1, plan_.max_nodes);
  plan_.max_restarts = pick(0, 2);
  plan_.join_seconds = 60;
  plan_.last_call_seconds = 3;
  plan_.stop_seconds = 40;
  plan_.abort_seconds = 20;
}

void SimulatedRun::draw_faults() {
  mischief_ = pick(0, 4) == 0;
  for (int faults = pick(0, 3); faults > 0; --faults) time_.in(uniform(0, 60), [this] { add_fault(); });
}

void SimulatedRun::add_fault() {
  auto& machine = *machines_[pick(0, plan_.max_nodes - 1)];
  if (machine.doing == Doing::kGone) return;
  const double durations[] = {uniform(0.5, 6), uniform(16, 60), kForever};
  switch (pick(0, 6)) {
    case 0:
    case 1:
      if (machine.doing != Doing::kTraining) return;
      if (pick(0, 1) == 0)
        time_.in(uniform(kSlowest, 2 * kSlowest), [this, attempt = machine.attempt.number] { fail_another(attempt); });
      return fail_worker(machine, FailureKind::kInternal);
    case 2: return kill(machine);
    case 3: return freeze(machine, durations[pick(0, 2)]);
    case 4: return cut_link(machine, durations[pick(0, 1)]);
    case 5: return signal(machine, SIGTERM);
    default:
      signal(machine, SIGINT);
      if (pick(0, 1) == 0) time_.in(uniform(0.2, 30), [this, &machine] { signal(machine, SIGINT); });
  }
}

void SimulatedRun::say(const std::string& text) { story_.push_back(log::text(time_.now(), " s: ", text)); }

// The network

void SimulatedRun::send(Machine& machine, std::function<void()> message) {
  if (!machine.connected) return;
  machine.to_server.push_back(std::move(message));
  time_.in(machine.index == 0 ? 0.001 : uniform(0.001, kSlowest), [this, &machine] { pump(machine, true); });
}

// One message for each call, unless it has to wait.
void SimulatedRun::pump(Machine& machine, bool to_server) {
  auto& queue = to_server ? machine.to_server : machine.from_server;
  if (queue.empty()) return;
  const bool waits = cut(machine) || (to_server ? frozen(*machines_[0]) : frozen(machine));
  if (waits) {
    const double until = std::max({machine.cut_until, machine.frozen_until, machines_[0]->frozen_until});
    return until == kForever ? void() : time_.in(0.25, [this, &machine, to_server] { pump(machine, to_server); });
  }
  const auto message = std::move(queue.front());
  queue.pop_front();
  message();
}

// One side has closed the connection, or its process is gone; the other hears of it unless the link is cut.
void SimulatedRun::disconnect(Machine& machine, const std::string& why) {
  if (!machine.connected) return;
  machine.connected = false;
  machine.to_server.clear();
  machine.from_server.clear();
  const int connection = machine.connection;
  const auto hear = [this, connection, why](const auto& again) -> void {
    if (server_dead_ || !connections_.contains(connection)) return;
    if (!server_stands()) return time_.in(0.25, [again] { again(again); });
    connections_.erase(connection);
    liveness_.forget(connection);
    coordinator_->lost(connection, why, time_.time());
    carry_out_orders();
  };
  if (!cut(machine)) time_.in(0.01, [hear] { hear(hear); });
}

// The server

void SimulatedRun::serve(Machine& machine, const std::function<void()>& act) {
  if (server_dead_ || !connections_.contains(machine.connection)) return;
  liveness_.seen(machine.connection, time_.time());
  act();
  carry_out_orders();
}

void SimulatedRun::server_tick() {
  if (server_dead_) return;
  if (server_stands()) {
    for (const int connection : liveness_.silent(time_.time())) {
      auto& machine = *connections_.at(connection);
      say(log::text("the server has not heard of machine ", machine.index));
      connections_.erase(connection);
      liveness_.forget(connection);
      coordinator_->lost(connection, "it has been silent", time_.time());
      if (!cut(machine) && machine.connected && machine.connection == connection)
        time_.in(0.01, [this, &machine] { lose_server(machine); });
    }
    const bool beats = time_.now() >= server_beat_;
    if (beats) server_beat_ = time_.now() + kNodeTimeout / 8;
    for (const auto& [connection, machine] : connections_) {
      if (!beats) break;
      machine->from_server.emplace_back([this, machine] { machine->liveness.seen(0, time_.time()); });
      time_.in(0.05, [this, machine] { pump(*machine, false); });
    }
    coordinator_->tick(time_.time());
    carry_out_orders();
  }
  if (machines_[0]->frozen_until != kForever) time_.in(kTick, [this] { server_tick(); });
}

void SimulatedRun::carry_out_orders() {
  for (auto& [connection, order] : coordinator_->take_orders()) {
    if (!connections_.contains(connection)) continue;
    auto* machine = connections_.at(connection);
    machine->dismissed = machine->dismissed || order.kind == Order::Kind::kFinish;
    machine->from_server.emplace_back([this, machine, order = order] {
      machine->liveness.seen(0, time_.time());
      obey(*machine, order);
    });
    time_.in(machine->index == 0 ? 0.001 : uniform(0.001, kSlowest), [this, machine] { pump(*machine, false); });
  }
}

Order SimulatedRun::begin(int world_size, int nodes) {
  const int attempt = static_cast<int>(attempts_.size());
  say(log::text("attempt ", attempt, " of ", world_size, " ranks on ", nodes, " nodes"));
  for (const auto& machine : machines_) {
    const bool heard = connections_.contains(machine->connection) && !machine->dismissed;
    if (heard && (machine->doing == Doing::kTraining || machine->doing == Doing::kEnding))
      broken(log::text("attempt ", attempt, " begins while machine ", machine->index, " still runs one"));
  }
  attempts_.emplace_back();
  attempts_.back().hurt_before =
      std::ranges::any_of(machines_, [this](const auto& machine) { return frozen(*machine) || cut(*machine); });
  return {.attempt = {.number = attempt, .run_dir = "run"}};
}

// Launchers

void SimulatedRun::join(Machine& machine) {
  if (machine.doing == Doing::kGone) return;
  if (server_dead_) return lose_server(machine);
  machine.connection = ++last_connection_;
  machine.connected = true;
  machine.doing = Doing::kWaiting;
  machine.liveness = Liveness(kNodeTimeout);
  machine.liveness.seen(0, time_.time());
  connections_[machine.connection] = &machine;
  const auto say = [this, &machine] {
    serve(machine, [&] {
      coordinator_->joined(machine.connection,
                           {.host = log::text("host", machine.index), .workers = 1, .first = machine.index == 0},
                           time_.time());
    });
  };
  send(machine, say);
  for (int more = mischief_ ? pick(0, 2) : 0; more > 0; --more)
    time_.in(uniform(0, 60), [this, &machine, say] { frozen(machine) ? void() : send(machine, say); });
  time_.in(kTick, [this, &machine] { launcher_tick(machine); });
}

void SimulatedRun::launcher_tick(Machine& machine) {
  if (machine.doing == Doing::kGone || !machine.connected) return;
  if (!frozen(machine)) {
    if (!machine.liveness.silent(time_.time()).empty()) return lose_server(machine);
    if (time_.now() >= machine.next_beat) {
      machine.next_beat = time_.now() + kNodeTimeout / 8;
      send(machine, [this, &machine] { serve(machine, [] {}); });
    }
  }
  if (machine.frozen_until != kForever) time_.in(kTick, [this, &machine] { launcher_tick(machine); });
}

void SimulatedRun::obey(Machine& machine, const Order& order) {
  if (machine.doing == Doing::kGone) return;
  const int attempt = machine.attempt.number;
  switch (order.kind) {
    case Order::Kind::kStart: {
      if (machine.doing != Doing::kWaiting) broken(log::text("machine ", machine.index, " is to start twice"));
      machine.doing = Doing::kPreparing;
      machine.attempt = order.attempt;
      machine.reported.reset();
      machine.rolls_back = false;
      machine.failure.reset();
      attempts_.at(order.attempt.number).machines.push_back(machine.index);
      time_.in(uniform(0, 5), [this, &machine, attempt = order.attempt.number] { start_workers(machine, attempt); });
      return;
    }
    case Order::Kind::kFinish:
      say(log::text("machine ", machine.index, " ends with ", order.exit_code, " ", order.text));
      machine.exit_code = order.exit_code;
      machine.text = order.text;
      machine.doing = Doing::kGone;
      return disconnect(machine, "it closed the connection");
    case Order::Kind::kStop:
      if (machine.doing == Doing::kPreparing) machine.reported = order.kind;
      if (machine.doing == Doing::kTraining) save_and_stop(attempt);
      return;
    case Order::Kind::kAbort:
    case Order::Kind::kKill:
      if (machine.doing == Doing::kPreparing) machine.reported = order.kind;
      if (machine.doing == Doing::kTraining)
        end_workers(machine, uniform(0.1, 13), kExitFailed, FailureKind::kCommunication);
  }
}

void SimulatedRun::start_workers(Machine& machine, int attempt) {
  if (machine.doing != Doing::kPreparing || machine.attempt.number != attempt) return;
  if (frozen(machine))
    return machine.frozen_until == kForever
               ? void()
               : time_.in(0.25, [this, &machine, attempt] { start_workers(machine, attempt); });
  send(machine,
       [this, &machine, attempt] { serve(machine, [&] { coordinator_->started(machine.connection, attempt); }); });
  machine.doing = Doing::kTraining;
  auto& now = attempts_.at(attempt);
  now.training.insert(machine.index);
  if (machine.reported) return end_workers(machine, uniform(0.1, 3), kExitPreempted);
  if (now.stopping) return save_and_stop(attempt);
  if (now.training.size() == static_cast<size_t>(machine.attempt.nodes))
    time_.in(uniform(5, 40), [this, attempt] { finish_training(attempt); });
  else
    time_.in(kCollectiveTimeout, [this, &machine, attempt] {  // the others have not come
      const auto& there = attempts_.at(attempt);
      if (there.training.size() < static_cast<size_t>(machine.attempt.nodes)) lose_contact(attempt, -1, 0);
    });
}

// The workers have ended, or are about to; the launcher says so.
void SimulatedRun::end_workers(Machine& machine, double after, int exit_code, std::optional<FailureKind> kind) {
  const int attempt = machine.attempt.number;
  machine.doing = Doing::kEnding;
  if (kind && !machine.failure)
    machine.failure =
        WorkerFailure{.rank = machine.attempt.first_rank, .time = clock_of(machine), .kind = *kind, .message = "bad"};
  time_.in(after, [this, &machine, attempt, exit_code] { say_ended(machine, attempt, exit_code); });
}

void SimulatedRun::say_ended(Machine& machine, int attempt, int exit_code) {
  if (machine.doing != Doing::kEnding || machine.attempt.number != attempt) return;
  if (frozen(machine))
    return machine.frozen_until == kForever
               ? void()
               : time_.in(0.25, [=, this, &machine] { say_ended(machine, attempt, exit_code); });
  WorkerEnd worker{.rank = machine.attempt.first_rank,
                   .host = log::text("host", machine.index),
                   .exit_code = exit_code,
                   .rolls_back = machine.rolls_back,
                   .time = clock_of(machine),
                   .failure = machine.failure};
  machine.doing = Doing::kWaiting;
  const AttemptEnd end{.attempt = attempt, .workers = {worker}, .stop_signal = machine.stop_signal};
  const auto hand_in = [this, &machine, message = to_message(end, clock_of(machine))] {
    serve(machine, [&] {
      coordinator_->ended(machine.connection, attempt_end(message, clock_of(*machines_[0])), time_.time());
    });
  };
  if (mischief_ && exit_code != kExitDone && !machine.rolls_back && pick(0, 3) == 0) {
    say(log::text("what machine ", machine.index, " says of its end is lost"));
    unreported_ = true;  // nobody can know the cause
  } else {
    send(machine, hand_in);
  }
  if (mischief_ && pick(0, 3) == 0) send(machine, hand_in);
}

// The connection is closed, or nothing comes over it: the launcher ends its workers, then itself.
void SimulatedRun::lose_server(Machine& machine) {
  if (machine.doing == Doing::kGone) return;
  if (frozen(machine))
    return machine.frozen_until == kForever ? void() : time_.in(0.25, [this, &machine] { lose_server(machine); });
  say(log::text("machine ", machine.index, " has lost the first"));
  if (!attempts_.empty())
    attempts_.back().hurt_before |=
        machine.attempt.number + 1 != static_cast<int>(attempts_.size()) || machine.doing == Doing::kWaiting;
  if (machine.doing == Doing::kTraining) lose_contact(machine.attempt.number, machine.index, uniform(0.05, 2));
  machine.doing = Doing::kGone;
  machine.exit_code = kExitFailed;
  disconnect(machine, "it closed the connection");
}

// The workers

// All of an attempt are done at the same step, if all are still there.
void SimulatedRun::finish_training(int attempt) {
  auto& now = attempts_.at(attempt);
  if (now.stopping) return;
  const auto trains = [&](int index) {
    return machines_[index]->doing == Doing::kTraining && machines_[index]->attempt.number == attempt;
  };
  if (!std::ranges::all_of(now.machines, trains)) return;
  if (std::ranges::any_of(now.machines, [&](int index) { return frozen(*machines_[index]) || cut(*machines_[index]); }))
    return time_.in(1, [this, attempt] { finish_training(attempt); });
  const bool rolls_back = rollbacks_ < kMostRollbacks && pick(0, 3) == 0;
  if (rolls_back) ++rollbacks_;
  for (const int index : now.machines) {
    machines_[index]->rolls_back = rolls_back;
    end_workers(*machines_[index], uniform(0, 1), rolls_back ? kExitPreempted : kExitDone, std::nullopt);
  }
}

// One rank is asked, all save at the end of the step; where somebody is not there any more the launchers end the rest.
void SimulatedRun::save_and_stop(int attempt) {
  auto& now = attempts_.at(attempt);
  now.stopping = true;
  const bool all_there = now.training.size() == static_cast<size_t>(machines_[now.machines.front()]->attempt.nodes) &&
                         std::ranges::all_of(now.machines, [&](int index) {
                           const auto& machine = *machines_[index];
                           return machine.doing == Doing::kTraining && !frozen(machine) && !cut(machine);
                         });
  for (const int index : now.machines) {
    auto& machine = *machines_[index];
    if (machine.doing == Doing::kTraining && machine.attempt.number == attempt)
      all_there ? end_workers(machine, uniform(0.1, 5), kExitPreempted)
                : end_workers(machine, uniform(0.1, 30), kExitFailed, FailureKind::kCommunication);
  }
}

void SimulatedRun::fail_worker(Machine& machine, FailureKind kind) {
  if (kind != FailureKind::kCommunication) note_cause(machine, /*loss=*/false);
  say(log::text("rank ", machine.attempt.first_rank, " fails: ", word_of(kind)));
  const auto say = [this, &machine, attempt = machine.attempt.number] {
    serve(machine, [&] { coordinator_->failing(machine.connection, attempt, time_.time()); });
  };
  send(machine, say);
  if (mischief_) send(machine, say);
  end_workers(machine, uniform(0, 13), kExitFailed, kind);
  lose_contact(machine.attempt.number, machine.index, uniform(0.05, 2));
}

// A second rank's own failure, before its collectives say it of the first.
void SimulatedRun::fail_another(int attempt) {
  for (const auto& machine : machines_) {
    if (machine->doing == Doing::kTraining && machine->attempt.number == attempt && !frozen(*machine))
      return fail_worker(*machine, FailureKind::kInternal);
  }
}

// A worker is gone: the others' collectives fail.
void SimulatedRun::lose_contact(int attempt, int but, double after) {
  for (const auto& machine : machines_) {
    if (machine->index != but) time_.in(after, [=, this, &machine = *machine] { fail_collective(machine, attempt); });
  }
}

void SimulatedRun::fail_collective(Machine& machine, int attempt) {
  if (machine.doing != Doing::kTraining || machine.attempt.number != attempt) return;
  if (!frozen(machine)) return fail_worker(machine, FailureKind::kCommunication);
  if (machine.frozen_until != kForever)
    time_.in(0.25, [this, &machine, attempt] { fail_collective(machine, attempt); });
}

// Faults

void SimulatedRun::note_cause(const Machine& machine, bool loss) {
  unreported_ = unreported_ || (loss && machine.index == 0);
  const bool takes_part = machine.doing == Doing::kPreparing || machine.doing == Doing::kTraining;
  if (!takes_part || (loss && machine.index == 0)) return;
  attempts_.at(machine.attempt.number)
      .causes.push_back({loss, loss ? machine.attempt.node : machine.attempt.first_rank, time_.now()});
}

void SimulatedRun::kill(Machine& machine) {
  say(log::text("machine ", machine.index, " dies"));
  note_cause(machine, /*loss=*/true);
  if (machine.doing == Doing::kEnding) unreported_ = true;  // what it knew of the cause may go with it
  const bool trained = machine.doing == Doing::kTraining;
  machine.doing = Doing::kGone;
  if (trained) lose_contact(machine.attempt.number, machine.index, uniform(0.05, 2));
  disconnect(machine, "it closed the connection");
  if (machine.index > 0) return;
  server_dead_ = true;
  for (const auto& other : machines_) {
    if (other->connected && !cut(*other)) time_.in(0.01, [this, &other = *other] { lose_server(other); });
  }
}

void SimulatedRun::freeze(Machine& machine, double duration) {
  say(log::text("machine ", machine.index, " is frozen for ", duration, " s"));
  if (duration > kNodeTimeout) note_cause(machine, /*loss=*/true);
  late_ = true;
  unreported_ = unreported_ || machine.index == 0;  // the first gives the others their time again
  machine.frozen_until = std::max(machine.frozen_until, time_.now() + duration);
  if (machine.doing != Doing::kTraining || duration < kCollectiveTimeout) return;
  time_.in(kCollectiveTimeout,
           [this, attempt = machine.attempt.number, index = machine.index] { lose_contact(attempt, index, 0); });
}

void SimulatedRun::cut_link(Machine& machine, double duration) {
  if (machine.index == 0) return;  // its launcher and its server talk within the machine
  late_ = true;
  say(log::text("the link of machine ", machine.index, " is cut for ", duration, " s"));
  if (duration > kNodeTimeout) note_cause(machine, /*loss=*/true);
  machine.cut_until = std::max(machine.cut_until, time_.now() + duration);
  if (machine.doing != Doing::kTraining || duration < kCollectiveTimeout) return;
  time_.in(kCollectiveTimeout, [this, attempt = machine.attempt.number] { lose_contact(attempt, -1, 0); });
}

void SimulatedRun::signal(Machine& machine, int number) {
  if (frozen(machine) || machine.doing == Doing::kGone) return;
  say(log::text("machine ", machine.index, " gets signal ", number));
  signalled_ = true;
  const bool again = machine.stop_signal != 0;
  if (!again) machine.stop_signal = number;
  const bool waits = machine.doing == Doing::kWaiting;
  send(machine, [this, &machine, number, again] {
    serve(machine, [&] { coordinator_->signalled(machine.connection, number, again, time_.time()); });
  });
  if (again && waits) {
    machine.exit_code = kExitSignalBase + number;
    machine.doing = Doing::kGone;
    time_.in(0.5, [this, &machine] { disconnect(machine, "it closed the connection"); });
  } else if (machine.doing == Doing::kTraining) {
    again ? end_workers(machine, uniform(0.1, 10), kExitFailed, FailureKind::kCommunication)
          : save_and_stop(machine.attempt.number);
  }
}

// The promises

std::vector<std::string> SimulatedRun::play() {
  const auto may_still_end = [](const auto& machine) {
    return machine->doing != Doing::kGone && machine->frozen_until != kForever;
  };
  while (time_.now() < kLongest && std::ranges::any_of(machines_, may_still_end) && time_.step()) {
  }
  for (const auto& machine : machines_) {
    if (may_still_end(machine)) broken(log::text("the launcher of machine ", machine->index, " never ends"));
  }
  if (server_stands()) check_end();
  return broken_;
}

void SimulatedRun::check_end() {
  const bool left =
      machines_[0]->exit_code > kExitDone;  // the first launcher waits no longer, and its server goes with it
  if (!coordinator_->finished()) return left ? void() : broken("the run never ends");
  const auto& result = coordinator_->result();
  for (const auto& machine : machines_) {
    const bool reported_so = machine->exit_code == kExitDone;
    if (reported_so && result.exit_code != kExitDone)
      broken(log::text("machine ", machine->index, " says that all is done"));
  }
  // Machines that are frozen together with the first continue together.
  if (result.exit_code == kExitDone && !unreported_ && (attempts_.empty() || !attempts_.back().causes.empty()))
    broken("all is done, although something failed in the last attempt");
  check_cause();
}

// Checks that the report names what went wrong in the last attempt, if it is only one thing; if two ranks failed, the
// first, whatever their machines' clocks show.
void SimulatedRun::check_cause() {
  const auto& result = coordinator_->result();
  if (signalled_ || unreported_ || attempts_.empty() || attempts_.back().hurt_before) return;
  const auto& causes = attempts_.back().causes;
  if (causes.empty() || causes.size() > 2) return;
  const bool ordered =
      !late_ && !causes.back().loss && !causes[0].loss && causes.back().time - causes[0].time > kSlowest;
  if (causes.size() == 2 && !ordered) return;
  if (result.report.starts_with("waited"))
    return;  // for nodes that do not come again; the cause was reported before that
  const auto& cause = causes.front();
  const bool gone_with_it = result.report.starts_with(log::text("node ", cause.rank, " (")) &&
                            result.report.find("is lost after one of its workers has failed") != std::string::npos;
  if (!cause.loss && gone_with_it) return;  // how, went with its node
  const auto named = cause.loss ? log::text("node ", cause.rank, " (") : log::text("rank ", cause.rank, " on ");
  if (!headline(result.report).starts_with(named))
    broken("the cause is " + named + ", the report says " + result.report);
}

}  // namespace ddprun::testing
