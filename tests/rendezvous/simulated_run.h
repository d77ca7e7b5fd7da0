// SPDX-License-Identifier: MIT
// A run of several nodes without sockets, processes or time to wait for: the coordinator is the real one, its
// launchers, their workers and the network between them are played, in virtual time, with faults drawn from a seed. As
// FoundationDB tests itself.
#pragma once

#include "rendezvous/control_link.h"
#include "rendezvous/coordinator.h"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace ddprun::testing {

// What happens next, in the order of time.
class VirtualTime {
 public:
  double now() const { return now_; }
  Coordinator::Time time() const { return Coordinator::Time(std::chrono::hours(1)) + seconds(now_); }
  void in(double delay, std::function<void()> act) { queue_.push({now_ + delay, ++last_, std::move(act)}); }
  bool step();  // to the next event; false where there is none

 private:
  struct Event {
    double at;
    long number;
    std::function<void()> act;
    bool operator<(const Event& other) const { return std::pair(other.at, other.number) < std::pair(at, number); }
  };
  std::priority_queue<Event> queue_;
  double now_ = 0;
  long last_ = 0;
};

class SimulatedRun {
 public:
  explicit SimulatedRun(uint64_t seed);

  // Plays it to its end. What of the promises was broken, a line each; empty where all were kept.
  std::vector<std::string> play();

  const std::vector<std::string>& story() const { return story_; }  // for people, with the times

 private:
  enum class Doing { kJoining, kWaiting, kPreparing, kTraining, kEnding, kGone };

  struct Machine {
    int index = 0;
    double clock = 0;  // what its steady clock showed when all began
    Doing doing = Doing::kJoining;
    int connection = 0;
    bool connected = false;
    bool dismissed = false;  // the coordinator counts on it no more
    double frozen_until = 0, cut_until = 0;
    std::deque<std::function<void()>> to_server, from_server;
    Liveness liveness{0};
    double next_beat = 0;
    ddprun::Attempt attempt;
    std::optional<Order::Kind> reported;  // while it prepared
    bool rolls_back = false;              // its workers end this attempt for the next one
    std::set<int> ended;                  // attempts
    std::optional<WorkerFailure> failure;
    int stop_signal = 0;
    int exit_code = -1;
    std::string text;
  };

  struct Cause {
    bool loss = false;
    int rank = 0;  // of a worker; of a lost node its place
    double time = 0;
  };

  struct Attempt {
    std::vector<int> machines;
    std::set<int> training;
    std::vector<Cause> causes;
    bool stopping = false;
    bool hurt_before = false;  // it began with a machine that was frozen or cut off
  };

  double uniform(double low, double high) { return std::uniform_real_distribution<>(low, high)(random_); }
  int pick(int low, int high) { return std::uniform_int_distribution<>(low, high)(random_); }
  void say(const std::string& text);
  void broken(const std::string& text) { broken_.push_back(text); }

  void draw_plan();
  void draw_faults();
  void add_fault();

  double clock_of(const Machine& machine) const { return machine.clock + time_.now(); }
  bool frozen(const Machine& machine) const { return machine.frozen_until > time_.now(); }
  bool cut(const Machine& machine) const { return machine.cut_until > time_.now(); }
  bool server_stands() const { return !server_dead_ && !frozen(*machines_[0]); }

  // The network: in order, late, nothing while the link is cut or the receiver is frozen.
  void send(Machine& machine, std::function<void()> to_server);
  void pump(Machine& machine, bool to_server);
  void disconnect(Machine& machine, const std::string& why);

  // The server.
  void serve(Machine& machine, const std::function<void()>& act);
  void server_tick();
  void carry_out_orders();
  Order begin(int world_size, int nodes);

  // A launcher.
  void join(Machine& machine);
  void launcher_tick(Machine& machine);
  void obey(Machine& machine, const Order& order);
  void start_workers(Machine& machine, int attempt);
  void end_workers(Machine& machine, double after, int exit_code, std::optional<FailureKind> kind = {});
  void say_ended(Machine& machine, int attempt, int exit_code);
  void lose_server(Machine& machine);

  // The workers.
  void finish_training(int attempt);
  void save_and_stop(int attempt);
  void fail_worker(Machine& machine, FailureKind kind);
  void fail_another(int attempt);
  void lose_contact(int attempt, int but, double after);
  void fail_collective(Machine& machine, int attempt);

  // Faults.
  void kill(Machine& machine);
  void freeze(Machine& machine, double duration);
  void cut_link(Machine& machine, double duration);
  void signal(Machine& machine, int number);
  void note_cause(const Machine& machine, bool loss);

  void check_end();
  void check_cause();

  std::mt19937_64 random_;
  VirtualTime time_;
  CoordinatorPlan plan_;
  std::unique_ptr<Coordinator> coordinator_;
  Liveness liveness_;
  double server_beat_ = 0;
  bool server_dead_ = false;
  std::vector<std::unique_ptr<Machine>> machines_;
  std::map<int, Machine*> connections_;
  int last_connection_ = 0;
  std::vector<Attempt> attempts_;
  int rollbacks_ = 0;
  bool signalled_ = false, unreported_ = false, mischief_ = false;
  bool late_ = false;  // something was frozen or cut off, and with it what it says
  std::vector<std::string> story_, broken_;
};

}  // namespace ddprun::testing
