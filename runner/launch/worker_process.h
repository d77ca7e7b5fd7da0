// SPDX-License-Identifier: MIT
// The contract between the launcher and the workers that it starts: a file with the worker's place in, exit codes and a
// failure file out.
#pragma once

#include "base/words.h"
#include "launch/attempt.h"

#include <array>
#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

// Exit codes of workers and of ddprun itself.
enum ExitCode : int {
  kExitDone = 0,
  kExitFailed = 1,
  kExitUsage = 2,
  kExitPreempted = 75,  // EX_TEMPFAIL: saved, run me again
  kExitSignalBase = 128,
};

// Exit code of a worker that is done. It is not 0, because a plugin or a library that calls _exit(0) must not pass for
// success.
inline constexpr int kWorkerDone = 90;

// Exit code of the workers that end an attempt together, for the next one to start from the last checkpoint.
inline constexpr int kWorkerRollsBack = 91;

enum class Task { kTrain, kEvaluate, kPredict };
template <>
struct WordsOf<Task> {
  static constexpr auto kAll = std::to_array<std::string_view>({"train", "evaluate", "predict"});
};

// A worker's place in the attempt, and the files that it shares with its launcher.
struct WorkerPlace {
  Attempt attempt;
  int rank = 0, local_rank = 0, local_world_size = 1;
  int machines = 1;                    // in the world: fewer than its nodes where an engine has started each rank
  Device device = Device::kCpu;        // not kAuto
  int gpu = -1;                        // -1, in a plan: the local rank, modulo the GPUs that the workers share
  int gpus = 1;                        // used by this process; all with trainer.strategy dp; 0 on the CPU
  std::string store;                   // where the ranks meet (comm/stores.h); empty, in a plan: a file on this machine
  std::string address = "127.0.0.1";   // where other ranks reach this machine; loopback if all are here
  std::filesystem::path config;        // the experiment
  std::filesystem::path heartbeat;     // the file to beat in; may be empty
  std::filesystem::path probe_answer;  // the file to answer in (launch/worker_handle.h); may be empty
  std::filesystem::path failure;       // the file to report a failure in; may be empty
  Task task = Task::kTrain;
  std::string split, out;  // to predict which split, into which CSV file
  std::string inputs;      // a list of new files to predict in place of a split; may be empty
  std::string noted;       // the run whose note of its data takes their place, since new files need none; may be empty
  int worst = 0;           // of how many samples, the worst predicted ones, the result is to say more
  double started_at = 0;   // steady_seconds() when the command began
};

// Writes the place to a file of the run's private folder; its workers find it by the variable DDPRUN_PLACE. Throws
// UserError if it cannot be written.
void write_place(const std::filesystem::path& file, const WorkerPlace& place);

// Returns this process's place. Throws UserError if there is no such file, or it is damaged.
WorkerPlace read_place();

using Variables = std::vector<std::pair<std::string, std::string>>;

// Returns "NAME=value" for a worker: the launcher's own environment, what is `added` to it, for libraries, plugins and
// who looks for a run's processes the ranks by torchrun's names, the run and the attempt, and the file with its place;
// later ones win.
std::vector<std::string> worker_environment(const Variables& added, const WorkerPlace& place,
                                            const std::filesystem::path& file);

// A worker starts with these blocked: one that arrives while it is loading waits until it is ready.
inline constexpr std::array<int, 2> kStopSignals{SIGTERM, SIGUSR1};
void unblock_stop_signals();

enum class FailureKind {
  kUser,           // a mistake in the experiment or the data
  kMemory,         // there was too little
  kInternal,       // any other exception
  kHang,           // the launcher's finding
  kSignal,         // the message says where it came
  kCommunication,  // a collective failed, most often because another rank had failed before
  kReplicas,       // the ranks hold different weights: all of them know
};
template <>
struct WordsOf<FailureKind> {
  static constexpr auto kAll =
      std::to_array<std::string_view>({"user", "memory", "internal", "hang", "signal", "communication", "replicas"});
};

// Why a worker failed, for the launcher's report.
struct WorkerFailure {
  int rank = 0;
  double time = 0;  // steady_seconds(); 0: not noted
  FailureKind kind = FailureKind::kInternal;
  std::string message;
  std::string phase;    // "starting", "training", "evaluating", "saving"
  long step = -1;       // -1: before the first
  std::string section;  // of the experiment, whose plugin it came out of: "model"; may be empty
};

// Calls `visit` with each field and its name in messages and files (launch/fields.h).
void visit_fields(WorkerFailure& failure, const auto& visit) {
  visit("rank", failure.rank);
  visit("time", failure.time);
  visit("kind", failure.kind);
  visit("message", failure.message);
  visit("phase", failure.phase);
  visit("step", failure.step);
  visit("section", failure.section);
}

// Writes it as JSON, whole or not at all, and not into the run folder, whose disk may be full. Never throws; returns
// whether it succeeded.
bool write_failure(const std::filesystem::path& file, const WorkerFailure& failure) noexcept;
// Returns nothing if there is no such file, or it is not one of ours.
std::optional<WorkerFailure> read_failure(const std::filesystem::path& file);

}  // namespace ddprun
