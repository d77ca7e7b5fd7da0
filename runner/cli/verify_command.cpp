// SPDX-License-Identifier: MIT
// `ddprun verify RUN`: checks that the checkpoints are intact.
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/inspection.h"
#include "cli/commands.h"
#include "launch/run_folder.h"
#include "launch/worker_process.h"

#include <ddprun/error.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <iostream>

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string megabytes(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MB", static_cast<double>(bytes) / 1e6);
  return text;
}

std::string local_time(std::time_t time) {
  std::tm parts{};
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", localtime_r(&time, &parts));
  return text;
}

// Returns the JSON text, whatever bytes a file's name has.
std::string text_of(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace); }

// Returns ", without 24 parameters that never train (0.5 MB)", or nothing for a checkpoint of the whole model.
std::string left_out_text(const CheckpointReport& report) {
  if (!report.left_out) return "";
  const auto& [digest, tensors, bytes] = *report.left_out;
  return log::text(", without ", tensors,
                   tensors == 1 ? " parameter that never trains" : " parameters that never train", " (",
                   megabytes(static_cast<uint64_t>(bytes)), ")");
}

std::string flaws_text(const CheckpointReport& report) {
  std::string text;
  for (const auto& flaw : report.flaws)
    text += (text.empty() ? "" : "; ") + flaw.file + ": " + flaw.kind + ": " + flaw.problem;
  return text;
}

std::string line_of(const CheckpointReport& report) {
  if (report.removed) return report.name + "  removed meanwhile: the run keeps its newest";
  if (!report.good()) return report.name + "  BROKEN  " + flaws_text(report);
  return report.name + "  ok  " + megabytes(report.bytes) + left_out_text(report) +
         (report.saved != 0 ? ", saved " + local_time(report.saved) : "");
}

Json to_json(const CheckpointReport& report) {
  auto flaws = Json::array();
  for (const auto& flaw : report.flaws)
    flaws.push_back({{"file", flaw.file}, {"kind", flaw.kind}, {"problem", flaw.problem}});
  auto left_out = Json(nullptr);
  if (report.left_out) left_out = {{"parameters", report.left_out->tensors}, {"bytes", report.left_out->bytes}};
  return {{"name", report.name},
          {"path", report.path.string()},
          {"step", report.step},
          {"ok", report.good()},
          {"removed", report.removed},
          {"bytes", report.bytes},
          {"saved", static_cast<int64_t>(report.saved)},
          {"world_size", report.world_size},
          {"left_out", std::move(left_out)},
          {"flaws", std::move(flaws)}};
}

// Returns the newest good checkpoint: the one that `ddprun resume` would use.
const CheckpointReport* resumed_from(const RunReport& report) {
  const auto usable = [](const CheckpointReport& checkpoint) { return checkpoint.good() && !checkpoint.removed; };
  const auto newest = std::ranges::find_if(report.checkpoints.rbegin(), report.checkpoints.rend(), usable);
  return newest == report.checkpoints.rend() ? nullptr : &*newest;
}

std::string link_line(const RunReport& report, const std::string& name, const std::string& target) {
  if (target.empty()) return "";
  const bool dangles = std::ranges::find(report.dangling, name) != report.dangling.end();
  const auto to = std::ranges::find(report.checkpoints, target, &CheckpointReport::name);
  const bool broken = to != report.checkpoints.end() && !to->good();
  return name + " -> " + target +
         (dangles  ? "  BROKEN  there is no such checkpoint"
          : broken ? "  (broken)"
                   : "") +
         "\n";
}

void print(const fs::path& run, const RunReport& report) {
  for (const auto& checkpoint : report.checkpoints) std::cout << line_of(checkpoint) << "\n";
  for (const auto& name : report.leftovers)
    std::cout << name << "  leftover of a save or a removal, or one under way; the next save removes it\n";
  std::cout << link_line(report, "last", report.last) << link_line(report, "best", report.best);
  const auto* newest = resumed_from(report);
  if (report.checkpoints.empty()) {
    std::cout << run.string() << " has no checkpoint yet\n";
  } else if (!report.good()) {
    std::cout << (newest ? "ddprun resume would resume from " + newest->name
                         : std::string("none of its checkpoints is intact: ddprun resume would refuse"))
              << "\n";
  }
}

Json to_json(const fs::path& run, const RunReport& report) {
  auto checkpoints = Json::array();
  for (const auto& checkpoint : report.checkpoints) checkpoints.push_back(to_json(checkpoint));
  const auto name_or_null = [](const std::string& name) { return name.empty() ? Json(nullptr) : Json(name); };
  const auto* newest = resumed_from(report);
  return {{"run", run.string()},
          {"ok", report.good()},
          {"checkpoints", std::move(checkpoints)},
          {"leftovers", report.leftovers},
          {"last", name_or_null(report.last)},
          {"best", name_or_null(report.best)},
          {"dangling", report.dangling},
          {"resume", name_or_null(newest ? newest->name : "")}};
}

int verify_run(const fs::path& run, bool json) {
  const auto report = inspect_run(run);
  if (json) {
    std::cout << text_of(to_json(run, report)) << "\n";
  } else {
    print(run, report);
  }
  return report.good() ? kExitDone : kExitFailed;
}

int verify_one(const fs::path& checkpoint, bool json) {
  const auto report = inspect_checkpoint(checkpoint);
  std::cout << (json ? text_of(to_json(report)) : line_of(report)) << "\n";
  return report.good() ? kExitDone : kExitFailed;
}

}  // namespace

int verify(const Arguments& arguments) {
  std::error_code error;
  const auto path = fs::canonical(arguments.target, error);
  if (error) throw UserError(arguments.target + ": " + error.message());
  require_kept_here(path);
  if (fs::exists(path / "config.yaml", error)) return verify_run(path, arguments.json);
  const bool named = step_of_name(path.filename().string()) && fs::is_directory(path, error);
  if (named || fs::exists(path / kManifestFile, error)) return verify_one(path, arguments.json);
  throw UserError(arguments.target + " is neither a run's folder (it has no config.yaml) nor a checkpoint");
}

}  // namespace ddprun
