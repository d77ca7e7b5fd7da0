// SPDX-License-Identifier: MIT
#include "agent/upload.h"

#include "metrics/run_summary.h"
#include "plugin_host/plugin_call.h"
#include "plugin_host/plugin_host.h"

#include <exception>

namespace ddprun {

std::vector<LoggerUpload> upload_run(const std::filesystem::path& run_dir, const Experiment& experiment) {
  const PluginHost host(plugin_search_path(experiment.plugin_path));
  const auto end = read_run_end(run_dir);
  std::vector<LoggerUpload> uploads;
  for (const auto& choice : experiment.loggers) {
    LoggerUpload upload{.logger = choice.plugin};
    try {
      const auto logger = host.make_logger(choice);
      in_plugin({choice.path.c_str(), "upload"}, [&] { logger->upload(run_dir, end); });
    } catch (const FromPlugin& error) {
      upload.problem = error.problem;
    } catch (const std::exception& error) {
      upload.problem = error.what();
    }
    uploads.push_back(std::move(upload));
  }
  return uploads;
}

}  // namespace ddprun
