// SPDX-License-Identifier: MIT
#include "launch/run_folder.h"

#include "base/clock.h"
#include "base/files_below.h"
#include "base/log.h"
#include "base/nearest_path.h"
#include "base/program.h"
#include "base/run_files.h"
#include "base/words.h"
#include "launch/attempt.h"
#include "shown_text.h"

#include <ddprun/error.h>
#include <ddprun/files.h>

#include <nlohmann/json.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <ctime>
#include <random>
#include <sstream>
#include <system_error>
#include <thread>
#include <tuple>
#include <vector>

namespace ddprun {
namespace fs = std::filesystem;
namespace {

constexpr auto kLock = ".lock";
constexpr auto kAttempts = ".attempts";  // how many attempts have begun
constexpr auto kJob = ".job";            // the engine's job that started the run
constexpr auto kWaiting = ".attempt";    // the record of an attempt that has not yet begun to train
constexpr auto kMark = ".mark";          // the mark of the process that runs it, for other nodes
constexpr auto kElsewhere = "kept_elsewhere.txt";

bool is_present(const fs::path& path) {
  std::error_code error;
  const bool found = fs::exists(path, error);
  if (error) throw_file_error("read", path, error.value());
  return found;
}

void remove_folder(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) throw_file_error("remove", path, error.value());
}

// Returns false if something of that name exists: of all who try, one creates it.
bool make_new_folder(const fs::path& path) {
  if (::mkdir(path.c_str(), 0777) == 0) {
    sync_path(path.parent_path());
    return true;
  }
  if (errno != EEXIST) throw_file_error("make the folder", path, errno);
  return false;
}

// Returns nothing if there is no such folder.
std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
  std::vector<fs::directory_entry> entries;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) entries.push_back(*at);
  if (error && error != std::errc::no_such_file_or_directory) throw_file_error("list", folder, error.value());
  return entries;
}

void require_folder_name(const std::string& name) {
  if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos) {
    throw UserError("name: \"" + name +
                    "\" must be a folder's name: it cannot be empty, begin with a dot or contain a slash");
  }
}

// Throws UserError for a path that the run's files cannot hold, before anything is written there.
void require_utf8(const fs::path& run_dir) {
  const auto path = fs::absolute(run_dir);
  if (is_utf8(path.string())) return;
  throw UserError(
      "the run's folder would be " + to_utf8(path.string()) +
      ", whose name is not UTF-8 text, and its files could not hold it: rename the folder, work in another, or "
      "give run.dir=FOLDER");
}

void point_latest(const fs::path& parent, const fs::path& run) try {
  point_link_at(parent / "latest", run.filename());
} catch (const UserError& error) {
  log::warn(std::string("cannot point `latest` to the newest run: ") + error.what());
}

fs::path make_stamped_folder(const std::string& name, const fs::path& outputs) {
  require_folder_name(name);
  const fs::path parent = outputs / name;
  make_folder(parent);
  const std::string stamp = local_time_stamp();
  fs::path path = parent / stamp;
  for (int suffix = 1; !make_new_folder(path); ++suffix) path = parent / (stamp + "-" + std::to_string(suffix));
  point_latest(parent, path);
  return path;
}

fs::path make_named_folder(const fs::path& path) {
  const fs::path clean = path.has_filename() ? path : path.parent_path();  // "runs/a/"
  if (clean.has_parent_path()) make_folder(clean.parent_path());
  if (make_new_folder(clean)) return clean;
  require_kept_here(clean);
  throw UserError("run.dir=" + path.string() + " already exists, and runs are never overwritten: `ddprun resume " +
                  path.string() + "` continues it, another run.dir starts a new run");
}

// Tries several times, because `ddprun list` and its like hold the lock for a moment to see whether somebody has it.
LockState take_lock(int fd) {
  constexpr int kTries = 10;
  constexpr auto kPause = std::chrono::milliseconds(10);
  for (int tried = 1;; ++tried) {
    const auto state = lock_descriptor(fd, LOCK_EX | LOCK_NB);
    if (state != LockState::kTaken || tried == kTries) return state;
    std::this_thread::sleep_for(kPause);
  }
}

UniqueFd lock_folder(const fs::path& folder) {
  const fs::path file = folder / kLock;
  open_below(folder, kLock);  // refuses what is no file
  UniqueFd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
  if (!fd.open()) throw_file_error("write", file, errno);
  const auto state = take_lock(fd.get());
  if (state == LockState::kTaken) {
    const std::string owner = read_below(folder, kLock);  // empty for a moment, while it starts
    throw UserError(folder.string() + " is in use by " + (owner.empty() ? "another process" : owner));
  }
  if (state == LockState::kNoLocks) {
    log::warn("cannot lock " + file.string() + ": " + std::strerror(errno) + "; do not start a second run there");
    return fd;
  }
  const std::string owner = "process " + std::to_string(::getpid()) + " on " + host_name();
  const auto write_owner = [&] { return ::pwrite(fd.get(), owner.data(), owner.size(), 0) >= 0; };
  if (::ftruncate(fd.get(), 0) != 0 || (!write_owner() && (errno != EINTR || !write_owner()))) {
    throw_file_error("write", file, errno);
  }
  return fd;
}

int attempts_so_far(const fs::path& folder) {
  const std::string text = read_below(folder, kAttempts);
  int attempts = 0;
  std::from_chars(text.data(), text.data() + text.size(), attempts);
  return attempts;
}

bool ended_well(const fs::path& run) {
  const auto json = nlohmann::json::parse(read_below(run, "summary.json"), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("status") || !json["status"].is_string()) return false;
  return has_trained_to_the_end(enum_of<RunStatus>(json["status"].get<std::string>()));
}

bool has_checkpoint(const fs::path& run) {
  std::error_code error;
  for (const auto& entry : entries_of(run / "checkpoints")) {
    if (entry.path().filename().string().starts_with("step_") && entry.is_directory(error)) return true;
  }
  return false;
}

struct RecordFile {
  const char* name;
  unsigned mode = 0666;
};
constexpr RecordFile kRecord[] = {{"environment.json"}, {kUncommitted, 0600}, {"overrides.txt"}, {"config.yaml"}};

// Keeps the old file beside the new one if they differ.
void replace(const RecordFile& what, const fs::path& waiting, const fs::path& run_dir, int attempt) {
  const fs::path file = run_dir / what.name;
  const auto content = read_below(waiting, what.name), old = read_below(run_dir, what.name);
  if (fs::exists(file) && old != content) {
    const auto before = ".attempt_" + std::to_string(std::max(attempt - 1, 0));
    const auto kept = run_dir / (file.stem().string() + before + file.extension().string());
    if (!fs::exists(kept)) replace_file(kept, old, what.mode);
  }
  if (!fs::exists(waiting / what.name)) {
    fs::remove(file);
  } else if (!fs::exists(file) || old != content) {
    replace_file(file, content, what.mode);
  }
}

bool has_logs(const fs::path& run) {
  std::error_code error;
  for (const auto& entry : entries_of(run / "logs")) {
    if (entry.path().extension() == ".log" && fs::file_size(entry.path(), error) > 0 && !error) return true;
  }
  return false;
}

// Returns when the run's first attempt began, as recorded with its offset from UTC. The stamp in the folder's name is
// local time, which repeats when clocks go back or the time zone changes, so it only serves runs that have not begun.
double start_of(const fs::path& run, const std::string& stamp) {
  for (const char* record : {"environment.attempt_0.json", "environment.json"}) {
    const auto json = nlohmann::json::parse(read_below(run, record), nullptr, /*allow_exceptions=*/false);
    const auto time = json.is_object() ? json.value("time", nlohmann::json()) : nlohmann::json();
    if (time.is_string()) return parse_time_stamp(time);
  }
  std::tm parts{.tm_isdst = -1};
  return ::strptime(stamp.c_str(), "%Y-%m-%d_%H-%M-%S", &parts) ? static_cast<double>(::mktime(&parts)) : 0;
}

// Throws UserError if a name in the folder is neither a file nor a folder: who continues the run would write over a
// link, and wait for a pipe. Only `checkpoints` may lie elsewhere, on another disk.
void require_plain(const fs::path& folder) {
  std::error_code error, ignored;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const auto kind = at->symlink_status(ignored).type();
    const bool plain = kind == fs::file_type::regular || kind == fs::file_type::directory;
    if (!plain && at->path().filename() != "checkpoints") open_below(folder, at->path().filename());  // says what it is
  }
}

// Throws UserError for a run whose files are refused: it may be anybody's.
void require_readable(const fs::path& run) {
  for (const char* name : {kElsewhere, kJob, "summary.json"}) open_below(run, name);
}

// Lists only stamped folders, the newest first; those of the same second are ordered by the number after the stamp. A
// run that cannot be read is passed over, with a warning: it hinders no other.
std::vector<fs::path> stamped_runs(const fs::path& parent) {
  constexpr size_t kStampLength = sizeof("YYYY-mm-dd_HH-MM-SS") - 1;
  std::vector<std::tuple<double, int, fs::path>> runs;
  std::error_code error;
  for (const auto& entry : entries_of(parent)) {
    const std::string name = entry.path().filename();
    if (entry.is_symlink(error) || !entry.is_directory(error) || name.size() < kStampLength) continue;
    int suffix = 0;
    if (name.size() > kStampLength) std::from_chars(name.data() + kStampLength + 1, name.data() + name.size(), suffix);
    try {
      require_readable(entry.path());
      runs.emplace_back(start_of(entry.path(), name.substr(0, kStampLength)), suffix, entry.path());
    } catch (const UserError& problem) {
      log::warn(std::string("passing over a run that cannot be read: ") + problem.what());
    }
  }
  std::sort(runs.rbegin(), runs.rend());
  std::vector<fs::path> paths;
  for (auto& [start, suffix, path] : runs) paths.push_back(std::move(path));
  return paths;
}

}  // namespace

RunFolder RunFolder::create(const std::string& name, const fs::path& run_dir, const fs::path& outputs) {
  require_utf8(run_dir.empty() ? outputs / name : run_dir);
  const fs::path path =
      fs::canonical(run_dir.empty() ? make_stamped_folder(name, outputs) : make_named_folder(run_dir));
  RunFolder folder(path, lock_folder(path));
  make_folder(path / "logs");
  make_folder(path / "checkpoints");
  folder.unbegun_ = true;
  return folder;
}

RunFolder RunFolder::resume(const fs::path& run_dir) {
  std::error_code error;
  const fs::path path = fs::canonical(run_dir, error);
  if (error) throw UserError(run_dir.string() + ": " + error.message());
  require_utf8(path);
  require_kept_here(path);
  if (!is_present(path / "logs") || !open_below(path, "config.yaml").open()) {
    throw UserError(run_dir.string() + " is not a run folder: it has no config.yaml and logs/");
  }
  for (const auto& part : {path, path / "logs"}) require_plain(part);
  RunFolder folder(path, lock_folder(path));
  make_folder(path / "checkpoints");
  std::istringstream job(read_below(path, kJob));
  std::getline(job, folder.job_);
  return folder;
}

void RunFolder::belongs_to(const std::string& job) {
  job_ = job;
  replace_file(path_ / kJob, job + "\n");
}

int RunFolder::begin_attempt() {
  unbegun_ = false;
  attempt_ = attempts_so_far(path_);
  replace_file(path_ / kAttempts, std::to_string(attempt_ + 1) + "\n");
  return attempt_;
}

std::string RunFolder::leave_mark() {
  if (!mark_.empty()) return mark_;
  std::random_device random;
  for (int part = 0; part < 4; ++part) mark_ += std::to_string(random());
  replace_file(path_ / kMark, mark_);
  return mark_;
}

bool RunFolder::discard_if_unbegun() {
  if (!unbegun_) return false;
  const fs::path parent = path_.parent_path(), latest = parent / "latest";
  std::error_code error;
  const bool is_latest = fs::read_symlink(latest, error) == path_.filename();
  fs::remove_all(path_, error);
  const auto runs = is_latest ? stamped_runs(parent) : std::vector<fs::path>();
  if (!runs.empty()) {
    point_latest(parent, runs.front());
  } else if (is_latest) {
    fs::remove(latest, error);
  }
  return true;
}

void RunFolder::record(RunRecord record) {
  record.attempt = attempt_;
  std::string overrides;
  for (const auto& override_text : record.overrides) overrides += override_text + "\n";
  make_folder(path_ / kWaiting);
  const auto environment = describe_environment(record);
  replace_file(path_ / kWaiting / "config.yaml", record.config_yaml);
  replace_file(path_ / kWaiting / "overrides.txt", overrides);
  replace_file(path_ / kWaiting / "environment.json", environment.json);
  if (!environment.uncommitted.empty()) replace_file(path_ / kWaiting / kUncommitted, environment.uncommitted, 0600);
  if (!is_present(path_ / "config.yaml")) commit_record(path_, attempt_);
}

bool RunFolder::record_waits() const {
  std::error_code error;
  return fs::exists(path_ / kWaiting, error);
}

void RunFolder::drop_waiting_record() {
  std::error_code ignored;
  fs::remove_all(path_ / kWaiting, ignored);
}

void commit_record(const fs::path& run_dir, int attempt) {
  const auto waiting = run_dir / kWaiting;
  if (!is_present(waiting / "config.yaml")) return;
  for (const auto& file : kRecord) replace(file, waiting, run_dir, attempt);
  remove_folder(waiting);
}

std::optional<fs::path> find_run_of_job(const std::string& name, const fs::path& run_dir, const std::string& job,
                                        const fs::path& outputs) {
  const auto runs = run_dir.empty() ? stamped_runs(outputs / name) : std::vector{run_dir};
  const auto found = std::ranges::find_if(runs, [&](const auto& run) { return read_below(run, kJob) == job + "\n"; });
  return found == runs.end() ? std::nullopt : std::optional(*found);
}

std::optional<fs::path> find_run_to_resume(const std::string& name, const fs::path& outputs) {
  std::optional<fs::path> logging;
  for (const auto& run : stamped_runs(outputs / name)) {
    if (ended_well(run)) break;
    if (const auto place = kept_elsewhere(run)) {
      log::info("skipping " + run.string() + ": the run is kept at " + *place);
      continue;
    }
    if (has_checkpoint(run)) return run;
    if (!logging && has_logs(run)) logging = run;
  }
  return logging;
}

bool sees_run(const fs::path& run_dir, const std::string& mark) {
  return !mark.empty() && read_below(run_dir, kMark) == mark;
}

bool may_write_to_run(const Attempt& attempt) {
  const bool sees_it = attempt.mark.empty() || sees_run(attempt.run_dir, attempt.mark);
  return sees_it && ::access(attempt.run_dir.c_str(), W_OK) == 0;
}

void make_own_folder(const fs::path& run_dir, const std::string& first_node, const std::string& config_yaml) {
  if (kept_elsewhere(run_dir)) {
    make_folder(run_dir / kWaiting);
    return replace_file(run_dir / kWaiting / "config.yaml", config_yaml);
  }
  // Writes it atomically, because the launchers of a node's ranks may come here together.
  const fs::path fresh = run_dir.string() + ".tmp-" + std::to_string(std::random_device()());
  make_folder(fresh / "logs");
  replace_file(fresh / "config.yaml", config_yaml);
  replace_file(fresh / kElsewhere,
               first_node + ":" + run_dir.string() +
                   "\nThe first node keeps the run there, with its metrics and checkpoints. Here are the logs of "
                   "this node's workers, and its experiment for `ddprun resume`.\n");
  std::error_code error;
  fs::rename(fresh, run_dir, error);
  if (!error) return sync_path(run_dir.parent_path());
  remove_folder(fresh);
  if (!is_present(run_dir)) throw_file_error("make the folder", run_dir, error.value());
  if (!kept_elsewhere(run_dir))
    throw UserError(run_dir.string() + " already exists on this node, and is neither the folder of the run, which " +
                    first_node +
                    " keeps, nor what this node has of it. Nothing is overwritten: move it away, or give all "
                    "nodes another run.dir");
}

std::optional<std::string> kept_elsewhere(const fs::path& run_dir) {
  const auto text = read_below(run_dir, kElsewhere);
  return text.empty() ? std::nullopt : std::optional(text.substr(0, text.find('\n')));
}

void require_kept_here(const fs::path& run_dir) {
  if (const auto place = kept_elsewhere(run_dir))
    throw UserError(run_dir.string() + " has only this node's logs of a run that is kept at " + *place +
                    ". Look there; `ddprun resume` there continues it, and here takes part in it, as another node "
                    "than the first");
}

fs::path existing_run(const fs::path& folder) {
  require_kept_here(folder);
  return existing_part(folder);
}

fs::path existing_part(const fs::path& folder) {
  std::error_code error;
  const auto path = fs::canonical(folder, error);
  if (error) throw UserError(folder.string() + ": " + error.message() + did_you_mean(folder));
  if (!open_below(path, "config.yaml").open()) {
    const auto latest = folder / "latest";
    throw UserError(folder.string() + " is not a run folder: it has no config.yaml" +
                    (fs::exists(latest / "config.yaml", error) ? "; did you mean " + latest.string() + "?" : ""));
  }
  return path;
}

}  // namespace ddprun
