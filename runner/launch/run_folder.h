// SPDX-License-Identifier: MIT
// The folder of one run: made once, locked while somebody runs in it, kept over restarts and resumptions.
#pragma once

#include "base/spawn.h"
#include "launch/environment.h"

#include <filesystem>
#include <optional>
#include <string>

namespace ddprun {

// Holds the lock of its folder for life: a second process gets a UserError that names the first. The kernel frees the
// lock when the process dies, however it dies; programs that it exec's do not hold it.
class RunFolder {
 public:
  // <outputs>/<name>/<date_time>, with -1, -2 ... after it where several start in one second, and
  // <outputs>/<name>/latest pointing to it; or `run_dir` where that is not empty. With logs/ and checkpoints/ in it.
  // Throws UserError where `run_dir` exists already, where the name cannot be a folder's, or where nothing can be
  // written.
  static RunFolder create(const std::string& name, const std::filesystem::path& run_dir,
                          const std::filesystem::path& outputs = "outputs");

  // A folder that create() made once. Throws UserError where it is none, or in use.
  static RunFolder resume(const std::filesystem::path& run_dir);

  const std::filesystem::path& path() const { return path_; }  // absolute, without links

  // Notes the job that an engine calls so: find_run_of_job() finds the run again when the engine starts that anew.
  void belongs_to(const std::string& job);

  // Numbers the attempts of this run from 0, over all the processes that ever ran it.
  int begin_attempt();

  // Leaves a mark in the folder, another one for each object: a node that finds it at its own path sees this folder
  // there. Returns it.
  std::string leave_mark();

  // Removes a folder that this object has made and in which no attempt has begun, as if it had never been there:
  // `latest` points to the run before. Returns whether it was such a one; a folder that cannot be removed stays.
  bool discard_if_unbegun();

  // Writes down what the attempt that began last is made of: config.yaml, overrides.txt and environment.json. In a run
  // that has them already they wait for commit_record(), for an attempt that cannot go on with the run must not change
  // it. Throws UserError where the disk is full.
  void record(const RunRecord& record);

  // What others took away while the run was under way: nothing, config.yaml alone, or all (its lock, its logs).
  enum class Loss { kNone, kConfig, kFolder };

  // Puts back what makes the folder a run's, so that it can be gone on with. Nothing before record(). Throws UserError
  // where nothing can be written, or somebody else has begun a run there.
  Loss put_back();

  bool record_waits() const;  // the attempt that began last has not committed it
  void drop_waiting_record();

 private:
  RunFolder(std::filesystem::path path, UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  std::filesystem::path path_;
  UniqueFd lock_;
  std::string job_, mark_;
  RunRecord record_;
  int attempt_ = 0;
  bool unbegun_ = false;  // made by this object, and nothing has begun in it
};

// Puts the record of the attempt in place, where it waits still. For rank 0's worker, once the checkpoint that it goes
// on from is loaded. Files of an earlier attempt that differ are kept as config.attempt_<number>.yaml and so on. Throws
// UserError.
void commit_record(const std::filesystem::path& run_dir, int attempt);

// What `checkpoint.resume=auto` goes on with: the newest run of that name with a checkpoint, else the newest that has
// begun to log. Runs that another node keeps do not count, and are told. Runs older than the last one that ended well
// (completed, stopped_early) do not count: their work is done.
std::optional<std::filesystem::path> find_run_to_resume(const std::string& name,
                                                        const std::filesystem::path& outputs = "outputs");

// The newest run of that name that belongs to the job, or the one in `run_dir` where that is not empty and belongs to
// it.
std::optional<std::filesystem::path> find_run_of_job(const std::string& name, const std::filesystem::path& run_dir,
                                                     const std::string& job,
                                                     const std::filesystem::path& outputs = "outputs");

// Where nodes share no file system the first one keeps the run, and each other has a folder of its own at the run's
// path: with its workers' logs, its experiment for `ddprun resume`, and a file that says where the run is.

// Whether this node sees the folder of the run, by the first node's mark.
bool sees_run(const std::filesystem::path& run_dir, const std::string& mark);

// Makes this node's own folder, or takes it again; `keeper` is the first node's name. In one that is there already the
// experiment waits for commit_record(). Throws UserError where anything else is in its place.
void make_own_folder(const std::filesystem::path& run_dir, const std::string& keeper, const std::string& config_yaml);

// "node1:/scratch/run" for such a folder; nothing for any other, or none.
std::optional<std::string> kept_elsewhere(const std::filesystem::path& run_dir);

// Throws UserError where the run is kept elsewhere, saying where.
void require_kept_here(const std::filesystem::path& run_dir);

}  // namespace ddprun
