// SPDX-License-Identifier: MIT
#include "agent/run_end.h"

#include "agent/upload.h"
#include "base/log.h"
#include "report/report.h"

#include <chrono>
#include <future>
#include <memory>
#include <thread>

namespace ddprun {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);

// In a thread that is left behind where a logger hangs: the program ends soon.
void tell_servers(const std::filesystem::path& run_dir, const Experiment& experiment) {
  auto done = std::make_shared<std::promise<std::vector<LoggerUpload>>>();
  auto uploads = done->get_future();
  std::thread([done, run_dir, experiment] {
    try {
      done->set_value(upload_run(run_dir, experiment));
    } catch (...) {
      done->set_exception(std::current_exception());
    }
  }).detach();
  if (uploads.wait_for(kPatience) != std::future_status::ready)
    return log::warn("a logger hangs; tell its server with: ddprun upload " + run_dir.string());
  for (const auto& upload : uploads.get()) {
    if (!upload.problem.empty()) log::warn("logger " + upload.logger + ": " + upload.problem);
  }
}

}  // namespace

void close_run(const std::filesystem::path& run_dir, const Experiment& experiment, bool failed) noexcept try {
  if (failed) tell_servers(run_dir, experiment);
  write_report(run_dir);
} catch (const std::exception& error) {
  log::warn(std::string("after the run: ") + error.what());
}

void tell_how_to_resume(const std::filesystem::path& run_dir) {
  log::info("the run is saved; go on with: ddprun resume " + run_dir.string());
}

}  // namespace ddprun
