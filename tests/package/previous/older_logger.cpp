// SPDX-License-Identifier: MIT
// A logger as somebody wrote it for an older SDK. It tells when its code begins to run, which may be while it is
// loaded.
#include <ddprun/logger.h>

#include <cstdlib>
#include <fstream>

namespace {

const bool kLoaded = [] {
  std::ofstream(std::getenv("OLDER_PLUGIN_RAN"), std::ios::app) << "older_logger\n";
  return true;
}();

class OlderLogger final : public ddprun::Logger {
 public:
  explicit OlderLogger(ddprun::Options& options) : word_(options.get<std::string>("word", "dear", "the first word")) {}

  void start(const ddprun::RunStart& run) override {
    file_.open(run.run_dir / "older.txt");
    file_ << word_ << std::endl;
  }

  void metrics(const ddprun::MetricRow& row) override {
    for (const auto& [name, value] : row.values) file_ << row.split << "/" << name << std::endl;
  }

 private:
  std::string word_;
  std::ofstream file_;
};

}  // namespace

DDPRUN_LOGGER(OlderLogger, "older_logger", "a logger of an older SDK")
