// SPDX-License-Identifier: MIT
// The folder of one run: created once, locked while somebody runs in it, kept over restarts and resumptions.
#pragma once

#include "base/spawn.h"
#include "launch/environment.h"

#include <filesystem>
#include <optional>
#include <string>

namespace ddprun {

struct Attempt;

// Holds the lock of its folder for life: a second process gets a UserError that names the first. The kernel releases
// the lock when the process dies, however it dies; programs that it exec's do not hold it.
class RunFolder {
 public:
  // Creates <outputs>/<name>/<date_time>, followed by -1, -2 ... if several start in one second, and points
  // <outputs>/<name>/latest to it; or creates `run_dir` if that is not empty. It contains logs/ and checkpoints/.
  // Throws UserError if `run_dir` exists already, the name cannot be a folder's, or nothing can be written.
  static RunFolder create(const std::string& name, const std::filesystem::path& run_dir,
                          const std::filesystem::path& outputs = "outputs");

  // Opens a folder that create() made. Throws UserError if it is not one, or in use.
  static RunFolder resume(const std::filesystem::path& run_dir);

  const std::filesystem::path& path() const { return path_; }  // absolute, without links

  // Records the engine's job id, by which find_run_of_job() finds the run again when the engine restarts the job.
  void belongs_to(const std::string& job);

  // Numbers the attempts of this run from 0, over all processes that ever ran it.
  int begin_attempt();

  // Leaves a mark in the folder, unique to this object, and returns it: a node that finds it at its own path sees this
  // folder there.
  std::string leave_mark();

  // Removes a folder that this object has created and in which no attempt has begun; `latest` points to the previous
  // run again. Returns whether it was such a folder; one that cannot be removed stays.
  bool discard_if_unbegun();

  // Records what the latest attempt is made of: config.yaml, overrides.txt and environment.json. If the run has these
  // files already, the new ones wait for commit_record(), because an attempt that cannot resume the run must not change
  // it. Throws UserError if the disk is full.
  void record(RunRecord record);

  bool record_waits() const;  // the latest attempt has not committed it
  void drop_waiting_record();

 private:
  RunFolder(std::filesystem::path path, UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  std::filesystem::path path_;
  UniqueFd lock_;
  std::string job_, mark_;
  int attempt_ = 0;
  bool unbegun_ = false;  // created by this object, and nothing has begun in it
};

// Puts the attempt's record in place if it is still waiting. Called by rank 0's worker once the checkpoint that it
// resumes from is loaded. Files of an earlier attempt that differ are kept as config.attempt_<number>.yaml and so on.
// Throws UserError.
void commit_record(const std::filesystem::path& run_dir, int attempt);

// Returns the run that `checkpoint.resume=auto` continues: the newest run of that name with a checkpoint, otherwise the
// newest that has begun to log. Runs that another node keeps are skipped and reported. Runs older than the last one
// that ended well (completed, stopped_early) are skipped: their work is done.
std::optional<std::filesystem::path> find_run_to_resume(const std::string& name,
                                                        const std::filesystem::path& outputs = "outputs");

// Returns the newest run of that name that belongs to the job, or the one in `run_dir` if that is not empty and belongs
// to it.
std::optional<std::filesystem::path> find_run_of_job(const std::string& name, const std::filesystem::path& run_dir,
                                                     const std::string& job,
                                                     const std::filesystem::path& outputs = "outputs");

// If nodes share no file system, the first one keeps the run, and each other one has a folder of its own at the run's
// path: with its workers' logs, its experiment for `ddprun resume`, and a file that says where the run is.

// Returns true if this node sees the run's folder, judging by the first node's mark.
bool sees_run(const std::filesystem::path& run_dir, const std::string& mark);

// Returns true if it does, or the run has a single node, and this process may write there.
bool may_write_to_run(const Attempt& attempt);

// Creates this node's own folder, or reuses it; `first_node` is the first node's name. In an existing one, the
// experiment waits for commit_record(). Throws UserError if anything else is in its place.
void make_own_folder(const std::filesystem::path& run_dir, const std::string& first_node,
                     const std::string& config_yaml);

// Returns "node1:/scratch/run" for such a folder, and nothing for any other or none.
std::optional<std::string> kept_elsewhere(const std::filesystem::path& run_dir);

// Throws UserError if the run is kept elsewhere, saying where.
void require_kept_here(const std::filesystem::path& run_dir);

// Returns the run's folder, absolute and without links. Throws UserError if it is not a run, or if another node keeps
// the run.
std::filesystem::path existing_run(const std::filesystem::path& folder);

// Returns the same, or this node's part of a run that the first node keeps.
std::filesystem::path existing_part(const std::filesystem::path& folder);

}  // namespace ddprun
