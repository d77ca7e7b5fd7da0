// SPDX-License-Identifier: MIT
#include "agent/agent.h"

#include "agent/checked_experiment.h"
#include "agent/chosen_checkpoint.h"
#include "agent/error_file.h"
#include "agent/run_end.h"
#include "agent/run_source.h"
#include "agent/same_experiment.h"
#include "agent/sidecars.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/run_files.h"
#include "checkpoint/checkpoint.h"
#include "comm/stores.h"
#include "config/idle_settings.h"
#include "launch/event_log.h"
#include "launch/side_thread.h"
#include "launch/signal_inbox.h"
#include "metrics/run_summary.h"
#include "plugin_host/carried_plugins.h"
#include "rendezvous/connection.h"
#include "rendezvous/control_link.h"
#include "rendezvous/node_runner.h"
#include "rendezvous/server.h"
#include "report/run_state.h"
#include "submit/requeue.h"

#include <ddprun/error.h>
#include <ddprun/version.h>

#include <torch/headeronly/version.h>

#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kAnswerWithin{10};  // a file system that takes longer may hang
constexpr std::chrono::milliseconds kLook{50};     // between looks for signals

// Holds the run for its agent. With several nodes, begin() is called on the server's thread, while the other thread
// waits for orders and signals. On a single node the run's folder is touched on the side thread alone.
class Agent {
 public:
  Agent(const NodeSetup& setup, const RunRequest& request)
      : setup_(setup), request_(request), since_command_(request.started_at) {}

  void make_run() {
    if (!setup_.launch.warning.empty()) log::warn(located(setup_.launch.warning, request_.checked.experiment));
    for (const auto& warning : idle_settings(request_.checked.experiment)) log::warn(warning);
    if (setup_.placement.engine_restarts && setup_.config.max_restarts > 0)
      log::info("launch.max_restarts: " + std::string(word_of(setup_.placement.engine)) +
                " restarts this job itself (--max-restarts); ddprun does not");
    require_sidecars(request_.checked.sidecars);
    // Opened only now that this node listens, so that a failure to listen shows before the other nodes are kept busy.
    auto run = open_run(request_.resumed, request_.checked, setup_.placement);
    tell_caller(run.folder.path());
    request_.early.reset();
    const std::scoped_lock lock(mutex_);
    if (!setup_.standalone()) common_ = common_part(request_.checked);
    run_.emplace(std::move(run));
  }

  Order begin(int world_size, int nodes) {
    const std::scoped_lock lock(mutex_);
    const auto& experiment = request_.checked.experiment;
    require_a_part_for_each(experiment.trainer, world_size,
                            log::text("the ", world_size, " workers of ", nodes, " nodes"));
    auto& folder = run_->folder;
    const auto warning = small_parts_warning(experiment.trainer, world_size);
    if (!begun_ && !warning.empty()) log::warn(located(warning, experiment));
    world_size_ = world_size;
    fs::path newest;
    aside({.end = End::kAtOnce}, [&] { newest = checkpoint_to_begin_from(); });  // nothing is written if it is refused
    aside({.slow = no_answer(), .end = End::kAfterwards}, [&] { write_beginning(); });
    sidecars_.start(request_.checked.sidecars, folder.path());
    const auto& checkpoint = newest.empty() ? run_->checkpoint : newest;
    if (attempt_ > 0 && checkpoint.empty())
      log::info("no checkpoint yet in " + folder.path().string() + ": starting it from the beginning");
    note("attempt",
         log::text(world_size, world_size == 1 ? " worker" : " workers", " on ", nodes, nodes == 1 ? " node" : " nodes",
                   checkpoint.empty() ? "" : ", from " + checkpoint.filename().string()));
    return {.attempt = {.number = attempt_,
                        .run_dir = folder.path(),
                        .checkpoint = checkpoint,
                        .mark = setup_.standalone() ? "" : folder.leave_mark(),
                        .first_node = setup_.host},
            .experiment = common_};
  }

  Coordinator::Begin begin() {
    return [this](int world_size, int nodes) { return begin(world_size, nodes); };
  }

  Coordinator::Notify notify() {
    return [this](bool warning, const std::string& text) {
      warning ? log::warn(text) : log::info(text);
      const std::scoped_lock lock(mutex_);
      if (warning) note("failure", headline(text));
    };
  }

  // Reports how the run ended, to people and to scripts. A file system that hangs does not keep a user who has asked
  // for the end.
  int conclude(const LaunchResult& result) {
    int exit_code = result.exit_code;
    bool goes_on = false;
    if (!result.report.empty()) log::error(result.report);
    const auto code = exit_code == kExitDone ? kExitFailed : exit_code;
    wait_for({.slow = no_answer(), .asked = result.stop_requested, .exit_code = code},
             [&] { goes_on = record_end(result); });
    if (goes_on)
      wait_for({.slow = "the run's end is recorded, its report is still being written", .exit_code = code},
               [&] { exit_code = tell_end(result); });
    if (const auto names = sidecars_.names(); goes_on && !names.empty())
      wait_for(
          {.slow = "the run's end is recorded, its last rows are still being sent to " + names, .exit_code = exit_code},
          [&] { send_rest(sidecars_, run_->folder.path(), result.stop_requested); });
    return exit_code;
  }

 private:
  // When a user who asks for the end gets it.
  enum class End {
    kAtOnce,      // before the job is done, since nothing has begun
    kAfterwards,  // after it, or before if it takes too long
    kWithIt       // the same; the job ends the run
  };

  struct Patience {
    std::string slow = {};  // what to say if it takes too long; empty: nothing is too long
    End end = End::kWithIt;
    bool asked = false;  // the user has asked for the end already
    int exit_code = 0;   // of kWithIt, if it takes too long
  };

  std::string no_answer() const {
    return log::text(run_->folder.path().string(), ": its file system has not answered for ", kAnswerWithin.count(),
                     " s");
  }

  // Verifying may take minutes.
  fs::path checkpoint_to_begin_from() {
    const auto& folder = run_->folder.path();
    if (held_) held_->require();
    if (!begun_) earlier_seconds_ = read_run_end(folder).total_seconds;
    auto found = checkpoint_steps(folder).empty() ? fs::path() : checkpoint_to_resume(folder);
    note_whether_it_trained();
    return found;
  }

  void write_beginning() {
    auto& folder = run_->folder;
    attempt_ = folder.begin_attempt();
    begun_ = true;
    if (request_.carries_plugins) carry_built_plugins(request_.checked.plugin_files, folder.path());
    folder.record({.config_yaml = to_yaml(request_.checked.experiment.config, /*origins=*/true),
                   .overrides = request_.overrides,
                   .arguments = request_.words,
                   .versions = {{"ddprun", DDPRUN_VERSION}, {"libtorch", TORCH_VERSION}},
                   .plugin_files = request_.checked.plugin_files});
    held_.emplace(folder.path());
  }

  // Does a part of begin(). With several nodes another thread hears signals meanwhile.
  void aside(const Patience& patience, const std::function<void()>& job) {
    setup_.standalone() ? wait_for(patience, job) : job();
  }

  // Does the job on the side thread and waits for it. Where a user who asks for the end gets it before the job is done,
  // the process ends here: that thread still uses what the destructors would destroy.
  void wait_for(const Patience& patience, const std::function<void()>& job) {
    std::exception_ptr error;
    side_.post([&] {
      try {
        job();
      } catch (...) {
        error = std::current_exception();
      }
    });
    const auto heard = hear_signals(patience);
    for (const int signal : heard) {
      if (patience.end == End::kAfterwards) ::raise(signal);
    }
    if (error) std::rethrow_exception(error);
  }

  // Returns the signals that ask for the end and came before the side thread had done its jobs.
  std::vector<int> hear_signals(const Patience& patience) const {
    SignalInbox signals;
    std::vector<int> heard;
    for (bool told = false; !side_.wait_for(kLook);) {
      for (const int signal : signals.take()) {
        if (signal == SIGTSTP) ::raise(SIGSTOP);
        if (signal != SIGTSTP && signal != SIGCHLD) heard.push_back(signal);
      }
      if (patience.end == End::kAtOnce && !heard.empty()) end_unbegun(heard.front());
      if (patience.slow.empty() || side_.busy_for().value_or(kLook) < kAnswerWithin) continue;
      const bool asked = patience.asked || !heard.empty();
      if (!std::exchange(told, true)) log::warn(patience.slow + (asked ? "" : "; Ctrl-C ends without it"));
      if (!asked) continue;
      if (patience.end == End::kAfterwards) end_unbegun(heard.front());
      end_at_once(patience.exit_code);
    }
    return heard;
  }

  [[noreturn]] static void end_at_once(int exit_code) {
    log::error("ended before all of the run's end was recorded");
    std::cout.flush();
    std::fflush(nullptr);
    ::_exit(exit_code);
  }

  // Records the end in the run's folder. Returns whether there is more to tell: an attempt trained, and the folder is
  // still the run's.
  bool record_end(const LaunchResult& result) try {
    run_->folder.discard_if_unbegun();
    if (!begun_) return false;  // what an earlier attempt left stays as it is
    if (held_ && !held_->is_there()) {
      if (result.report.find(held_->problem()) == result.report.npos) log::warn(held_->problem());
      return false;
    }
    note_whether_it_trained();
    run_->folder.drop_waiting_record();
    const auto& folder = run_->folder.path();
    if (!result.report.empty()) note("failure", headline(result.report));
    if (!trained_) {
      log::info(folder.string() + " is as it was before");
      return false;
    }
    if (!result.report.empty()) {
      record_failure(result);
    } else {
      const auto end = read_run_end(folder);
      note("end", end.status + ": " + end.stop_reason);
    }
    return true;
  } catch (const UserError& error) {
    log::warn(error.what());
    return true;
  }

  // Writes the report, tells the user what to do next, and returns the exit code.
  int tell_end(const LaunchResult& result) const {
    const auto& folder = run_->folder.path();
    const auto& experiment = request_.checked.experiment;
    const bool failed = !result.report.empty();
    if (failed) tell_checkpoint(folder);
    close_run(folder);
    if (result.exit_code == kExitPreempted && !failed) tell_how_to_resume(folder, experiment.is_range_test());
    const int exit_code = failed ? result.exit_code : tell_what_is_missing(folder, result.exit_code);
    return exit_code == kExitDone && experiment.is_range_test() ? tell_suggested_lr(folder) : exit_code;
  }

  void note(const char* kind, const std::string& text) {
    if (!run_ || !begun_) return;
    side_.post([folder = run_->folder.path(), event = LaunchEvent{.attempt = attempt_, .kind = kind, .text = text}] {
      append_event(folder, event);
    });
  }

  void record_failure(const LaunchResult& result) const {
    const auto& folder = run_->folder.path();
    auto [end, history] = recorded_end(folder);
    end.status = word_of(RunStatus::kFailed);
    end.stop_reason = headline(result.report);
    end.total_seconds = earlier_seconds_ + since_command_.seconds();
    end.world_size = world_size_;
    try {
      write_summary(folder, {.end = end, .attempt = attempt_, .history = history, .loggers = read_troubles(folder)});
    } catch (const UserError& error) {
      log::warn(error.what());  // the run's own failure is the one to report
    }
  }

  static void tell_checkpoint(const fs::path& folder) try {
    std::vector<CheckpointFlaw> told_already;
    if (newest_checkpoint(folder, told_already))
      log::info("resume from the last checkpoint with: ddprun resume " + folder.string());
  } catch (const UserError& error) {
    log::warn(error.what());
  }

  // Notes whether the last attempt trained; if none did, the run's config and summary stay those of the previous
  // command.
  void note_whether_it_trained() { trained_ = trained_ || (begun_ && !run_->folder.record_waits()); }

  const NodeSetup& setup_;
  const RunRequest& request_;
  const TimeSince since_command_;
  double earlier_seconds_ = 0;  // of earlier commands that have ended
  std::mutex mutex_;
  std::optional<PreparedRun> run_;
  std::optional<HeldFolder> held_;             // the run's folder, once an attempt is recorded there
  std::map<std::string, std::string> common_;  // compared by the other nodes
  int world_size_ = 1, attempt_ = 0;
  Sidecars sidecars_;
  bool begun_ = false;    // an attempt has begun
  bool trained_ = false;  // an attempt has, or it is the run's first

  SideThread side_;  // last: what it does uses all of the above
};

// Writes the failure where torchrun looks for it.
void tell_engine(const NodeSetup& setup, const NodeResult& node) {
  if (!setup.placement.error_file.empty()) write_error_file(setup.placement.error_file, node.last, node.text);
}

LaunchPlan plan_of(const NodeSetup& setup, const RunRequest& request, const Attempt& attempt) {
  auto plan = attempt_plan(setup, attempt);
  plan.place.started_at = request.started_at;
  plan.config = to_yaml(request.checked.experiment.config, /*origins=*/true);
  if (request.checked.experiment.is_range_test() && !plan.stopping.empty()) plan.stopping = "stopping";
  return plan;
}

NodeResult run_own_node(ControlLink& link, const NodeSetup& setup, const RunRequest& request,
                        const std::string& leader_key = {}) {
  auto info = setup.info(true);
  info.leader_key = leader_key;
  const auto node = run_node(link, info, [&](const Order& start) { return plan_of(setup, request, start.attempt); });
  tell_engine(setup, node);
  return node;
}

int run_single_node(const NodeSetup& setup, const RunRequest& request) {
  Agent agent(setup, request);
  agent.make_run();
  Coordinator coordinator(setup.coordination(), agent.begin(), agent.notify(), Clock::now());
  LocalLink link(coordinator);
  const auto node = run_own_node(link, setup, request);
  return agent.conclude(coordinator.result());
}

ServerPlan server_plan(const NodeSetup& setup) {
  ServerPlan plan{.listen = {setup.address, setup.placement.agent_store ? 0 : setup.endpoint.port},
                  .secret = setup.secret,
                  .node_timeout_seconds = setup.config.node_timeout_seconds,
                  .coordinator = setup.coordination()};
  const bool known = setup.placement.agent_store || is_this_machine(setup.endpoint);
  if (!known) plan.listen.host.clear();  // a name that others use for this machine, such as a Kubernetes service
  return plan;
}

// Returns null if another launcher was first at the endpoint and this one may join it.
std::unique_ptr<RendezvousServer> listen(const NodeSetup& setup, Agent& agent) {
  const auto plan = server_plan(setup);
  try {
    return std::make_unique<RendezvousServer>(plan, agent.begin(), agent.notify());
  } catch (const PortTaken& taken) {
    if (setup.hosts() == NodeSetup::Hosts::kFirstCome) return nullptr;
    throw UserError(
        "cannot listen at " + std::string(taken.what()) +
        ". Another run is using this port: give each its own with --rdzv-endpoint=HOST:PORT (or MASTER_PORT)");
  }
}

int host_rendezvous(NodeSetup setup, const RunRequest& request, Agent& agent, RendezvousServer& server) {
  setup.endpoint.port = server.port();
  if (setup.placement.agent_store) {
    setup.endpoint.host = setup.address;
    publish_server(setup.placement, {setup.endpoint, setup.secret.token});
  }
  const auto plan = setup.coordination();
  const auto fewest = plan.min_nodes == plan.max_nodes ? "" : log::text(plan.min_nodes, " to ");
  log::info(log::text("first of ", fewest, plan.max_nodes, setup.is_rank() ? " ranks" : " nodes", "; listens at ",
                      setup.endpoint.text()));
  for (const auto& warning : warnings_of_openness(setup)) log::warn(warning);
  agent.make_run();
  SignalInbox signals;  // holds back torchrun's signals until everything is reported
  RemoteLink link(Connection::open(setup.endpoint, setup.secret, Clock::now() + seconds(setup.config.join_seconds)),
                  setup.config.node_timeout_seconds);
  const auto node = run_own_node(link, setup, request, server.leader_key());
  auto result = server.result();
  if (!result) {  // this launcher does not wait for the others, or the coordinator gave up on it
    const bool asked = node.exit_code > kExitSignalBase;
    if (asked) log::warn(node.text);
    result = LaunchResult{.exit_code = node.exit_code, .report = asked ? "" : node.text + "\n"};
  }
  const int exit_code = agent.conclude(*result);
  server.wait_for_disconnects();
  signals.take();
  return exit_code;
}

// Returns whether this launcher reports to people: one per node, the first of the ranks that an engine starts.
bool speaks(const NodeSetup& setup) { return !setup.is_rank() || setup.placement.local_rank == 0; }

void tell_of_joining(const NodeSetup& setup, const Attempt& attempt) {
  if (!speaks(setup)) return;
  const auto place = setup.is_rank() ? log::text("rank ", attempt.first_rank, " of ", attempt.world_size)
                                     : log::text("node ", attempt.node, " of ", attempt.nodes);
  const bool sees = sees_run(attempt.run_dir, attempt.mark);
  log::info("joined as " + place + " at " + setup.endpoint.text() + "; the run's folder is " +
            attempt.run_dir.string() +
            (sees ? ""
                  : " at " + attempt.first_node +
                        ", which this node does not see; its logs go to a local folder of that path"));
}

void tell_of_end(const NodeResult& node, const Experiment& experiment, const fs::path& run_dir) {
  if (node.exit_code == kExitDone) log::info("the run is done: " + kept_elsewhere(run_dir).value_or(run_dir.string()));
  if (node.exit_code == kExitPreempted) tell_how_to_resume(run_dir, experiment.is_range_test());
}

// Takes from torchrun's store where the run's server is, and its token where this rank was given none.
void find_server(NodeSetup& setup) {
  auto server = find_server(setup.placement, setup.config.join_seconds);
  setup.endpoint = server.endpoint;
  if (setup.secret.token.empty()) setup.secret.token = server.token;
}

// Takes part in the run as a node that is not the first. A script's earlier run may be about to end at the same
// endpoint: until its server has gone, this node asks again.
NodeResult run_joined(const NodeSetup& setup, const PlanAttempt& plan) {
  const auto deadline = Clock::now() + seconds(setup.config.join_seconds);
  bool has_begun = false;
  const auto begin = [&](const Order& order) { return has_begun = true, plan(order); };
  for (;;) {
    RemoteLink link(Connection::open(setup.endpoint, setup.secret, deadline), setup.config.node_timeout_seconds);
    auto node = run_node(link, setup.info(false), begin);
    const bool over =
        node.text == kRunIsOver || node.exit_code == kExitFailed;  // or it went while this one was joining
    if (has_begun || !over || setup.placement.earlier_runs == 0 || Clock::now() >= deadline) return node;
    std::this_thread::sleep_for(kLook);
  }
}

int join_rendezvous(NodeSetup setup, const RunRequest& request) {
  const bool knows_the_first = !setup.secret.token.empty();  // else whoever has written to torchrun's store may be it
  if (setup.placement.agent_store) find_server(setup);
  const auto& experiment = request.checked.experiment;
  const auto own_folder = request.resumed.empty() ? experiment.run_dir : request.resumed;
  fs::path run_dir;
  const auto node = run_joined(setup, [&](const Order& order) {
    const auto& attempt = order.attempt;
    if (run_dir.empty()) require_same_experiment(order.experiment, common_part(request.checked));
    if (!knows_the_first) require_expected_places(attempt, experiment, own_folder);
    if (run_dir.empty()) {
      tell_of_joining(setup, attempt);
      prepare_data(request.checked);
    }
    auto plan = plan_of(setup, request, attempt);
    if (!sees_run(attempt.run_dir, attempt.mark)) make_own_folder(attempt.run_dir, attempt.first_node, plan.config);
    if (run_dir.empty()) tell_caller(attempt.run_dir);
    run_dir = attempt.run_dir;
    return plan;
  });
  tell_engine(setup, node);
  if (!node.text.empty()) node.exit_code == kExitPreempted ? log::info(node.text) : log::error(node.text);
  if (speaks(setup) && !run_dir.empty() && node.text.empty()) tell_of_end(node, experiment, run_dir);
  return node.exit_code;
}

}  // namespace

int run_agent(NodeSetup setup, const RunRequest& request) {
  const auto job = setup.config.requeue ? job_to_requeue(process_environment()) : "";
  const auto with_requeue = [&](int exit_code) {
    if (exit_code != kExitPreempted || job.empty()) return exit_code;
    SignalInbox signals;  // Slurm ends a job that it requeues: not before scontrol has answered
    requeue(job);
    signals.take();
    return exit_code;
  };
  if (!setup.standalone() && setup.hosts() == NodeSetup::Hosts::kNo) return join_rendezvous(setup, request);
  find_end_of_job(setup);
  if (setup.placement.agent_store && setup.secret.token.empty()) setup.secret.token = random_token();
  if (setup.standalone()) return with_requeue(run_single_node(setup, request));
  Agent agent(setup, request);
  const auto server = listen(setup, agent);
  return server ? with_requeue(host_rendezvous(setup, request, agent, *server)) : join_rendezvous(setup, request);
}

}  // namespace ddprun
