// SPDX-License-Identifier: MIT
#include "logger_scene.h"
#include "problem.h"

#include <ddprun/testing/logger.h>

#include <fstream>
#include <iterator>

namespace ddprun::check {
namespace {

namespace fs = std::filesystem;

// Returns the relative name of the first file below the folder that contains the text, or empty if none does.
std::string file_with(const fs::path& folder, const std::string& text) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const auto name = fs::relative(entry.path(), folder).string();
    if (name.find(text) != std::string::npos) return name;
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(file), {}};
    if (content.find(text) != std::string::npos) return name;
  }
  return "";
}

// Overwrites a hook's arguments as soon as it has returned. They live on in `told`: a kept reference is an error, but
// no crash.
void tell_and_overwrite(Logger& logger, const fs::path& run_dir, std::vector<std::unique_ptr<ToldRun>>& told) {
  const auto tell_one = [&](const char* name, auto call) {
    auto& run = *told.emplace_back(std::make_unique<ToldRun>("told/once/", run_dir));
    in_hook(name, [&] { call(run); });
    run.overwrite();
  };
  tell_one("start()", [&](const ToldRun& run) { logger.start(run.start); });
  tell_one("progress()", [&](const ToldRun& run) { logger.progress(run.progress); });
  tell_one("metrics()", [&](const ToldRun& run) { logger.metrics(run.train); });
  tell_one("metrics()", [&](const ToldRun& run) { logger.metrics(run.val); });
  tell_one("ranks()", [&](const ToldRun& run) { logger.ranks(run.ranks); });
  tell_one("confusion()", [&](const ToldRun& run) { logger.confusion(run.confusion); });
  tell_one("predictions()", [&](const ToldRun& run) { logger.predictions(run.predictions); });
  tell_one("histograms()", [&](const ToldRun& run) { logger.histograms(run.histograms); });
  tell_one("event()", [&](const ToldRun& run) { logger.event(run.event); });
  tell_one("flush()", [&](const ToldRun&) { logger.flush(); });
  tell_one("finish()", [&](const ToldRun& run) { logger.finish(run.end); });
}

}  // namespace

std::string takes_a_run(const LoggerTest& test) {
  return problem_of([&] {
    const RunFolder folder(test);
    ToldRun run("told/", folder.path());
    auto logger = made(test);
    in_logger_thread([&] { tell(*logger, run); });
    logger = made(test);
    run.start.attempt = 1;
    run.start.resumed_step = 5;
    in_logger_thread([&] {
      try {
        tell(*logger, run, /*finish=*/false);
      } catch (const Problem& problem) {
        complain("in the folder of a run that is resumed: ", problem.what());
      }
    });
  });
}

std::string keeps_no_references(const LoggerTest& test) {
  return problem_of([&] {
    const RunFolder folder(test);
    std::vector<std::unique_ptr<ToldRun>> told;
    auto logger = made(test);
    in_logger_thread([&] { tell_and_overwrite(*logger, folder.path(), told); });
    logger.reset();
    const auto file = file_with(folder.path(), kOverwritten);
    if (file.empty()) return;
    complain(file,
             " shows what a row or table was overwritten with after its hook had returned: copy what is written later");
  });
}

std::vector<std::string> all(const LoggerTest& test) {
  return problems_of({{"takes_a_run", [&] { return takes_a_run(test); }},
                      {"takes_odd_values", [&] { return takes_odd_values(test); }},
                      {"keeps_no_references", [&] { return keeps_no_references(test); }}});
}

}  // namespace ddprun::check
