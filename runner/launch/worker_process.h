// SPDX-License-Identifier: MIT
// The contract between the launcher and the workers that it starts: environment variables in, exit codes and a failure
// file out. Names that torchrun has too are torchrun's.
#pragma once

#include "base/words.h"

#include <array>
#include <csignal>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

struct LaunchPlan;

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

inline constexpr auto kStoreVariable = "DDPRUN_STORE";

// A worker's place, as RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE and ddprun's own variables. Whoever plans an
// attempt fills in what is the same for all workers, the launcher each one's ranks and files.
struct WorkerPlace {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  int local_world_size = 1;
  int nodes = 1;                       // DDPRUN_NODES
  int gpu = -1;                        // DDPRUN_GPU; -1, before it is read: the local rank, modulo shared_gpus
  int shared_gpus = 0;                 // DDPRUN_SHARED_GPUS: that more workers share; 0: each worker has its own
  int gpus = 1;                        // DDPRUN_GPUS: used by this process; all with trainer.strategy dp; 0 on the CPU
  int attempt = 0;                     // DDPRUN_ATTEMPT
  std::filesystem::path run_dir;       // DDPRUN_RUN_DIR
  std::filesystem::path config;        // DDPRUN_CONFIG: the experiment; by default the run folder's config.yaml
  std::string store;                   // DDPRUN_STORE: where the ranks meet (comm/stores.h)
  std::string address;                 // DDPRUN_ADDRESS: where other ranks reach this machine; loopback if all are here
  std::filesystem::path heartbeat;     // DDPRUN_HEARTBEAT: the file to beat in; may be empty
  std::filesystem::path probe_answer;  // DDPRUN_PROBE: the file to answer in (launch/worker_handle.h); may be empty
  std::filesystem::path failure;       // DDPRUN_FAILURE: the file to report a failure in; may be empty
  Device device = Device::kCpu;        // DDPRUN_DEVICE: not kAuto
  std::string checkpoint;    // DDPRUN_CHECKPOINT: the verified one to continue from, or to use; empty: a run begins
  Task task = Task::kTrain;  // DDPRUN_TASK
  std::string split, out;    // DDPRUN_SPLIT and DDPRUN_OUT: to predict which split, into which CSV file
  std::string inputs;        // DDPRUN_INPUTS: a list of new files to predict in place of a split; may be empty
  double started_at = 0;     // DDPRUN_STARTED_AT: steady_seconds() when the command began
};

// Throws UserError naming the variable that is missing or malformed.
WorkerPlace read_worker_place();

using Variables = std::vector<std::pair<std::string, std::string>>;

// What read_worker_place() reads; without the texts that are empty.
Variables to_environment(const WorkerPlace& place);

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
};
template <>
struct WordsOf<FailureKind> {
  static constexpr auto kAll =
      std::to_array<std::string_view>({"user", "memory", "internal", "hang", "signal", "communication"});
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

// Writes it as JSON, whole or not at all, and not into the run folder, whose disk may be full. Never throws; returns
// whether it succeeded.
bool write_failure(const std::filesystem::path& file, const WorkerFailure& failure) noexcept;
// Returns nothing if there is no such file, or it is not one of ours.
std::optional<WorkerFailure> read_failure(const std::filesystem::path& file);

// The place of the plan's worker number `index`, but for its files and where the ranks meet.
WorkerPlace worker_place(const LaunchPlan& plan, int index);

// Returns "NAME=value" for a worker: the launcher's own environment, the plan's additions, and the worker's place;
// later ones win.
std::vector<std::string> worker_environment(const LaunchPlan& plan, const WorkerPlace& place);

// Describes that worker, for its log.
std::string place_text(const LaunchPlan& plan, int index);

}  // namespace ddprun
