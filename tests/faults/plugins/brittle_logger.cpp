// SPDX-License-Identifier: MIT
#include "brittle.h"

#include <ddprun/logger.h>

#include <cstdlib>

namespace {

class BrittleLogger final : public ddprun::Logger {
 public:
  explicit BrittleLogger(ddprun::Options& options)
      : child_(options.get<bool>("child", false, "start a program beside the worker, and one in a session of its own")),
        sink_(options.get<std::string>("sink", "", "where the first row cannot be sent to; empty: it can")) {}

  void start(const ddprun::RunStart& /*run*/) override {
    brittle::reach("logger.start");
    if (child_ && std::system("sleep 1000 & setsid sleep 1000 &") != 0) throw std::runtime_error("cannot start sleep");
  }
  void metrics(const ddprun::MetricRow& /*row*/) override {
    brittle::reach("logger.metrics");
    if (!sink_.empty()) throw std::runtime_error("cannot send to " + sink_);
  }
  void predictions(const ddprun::PredictionTable& /*table*/) override { brittle::reach("logger.predictions"); }
  void flush() override { brittle::reach("logger.flush"); }
  void finish(const ddprun::RunEnd& /*end*/) override { brittle::reach("logger.finish"); }

 private:
  bool child_;
  std::string sink_;
};

}  // namespace

DDPRUN_LOGGER(BrittleLogger, "brittle_logger", "writes nothing, and its hooks fail on demand")
