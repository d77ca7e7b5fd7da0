// SPDX-License-Identifier: MIT
#include "brittle.h"

#include <ddprun/logger.h>

namespace {

class BrittleLogger final : public ddprun::Logger {
 public:
  explicit BrittleLogger(ddprun::Options& options)
      : sink_(options.get<std::string>("sink", "", "where the first row cannot be sent to; empty: it can")) {}

  void start(const ddprun::RunStart& /*run*/) override { brittle::reach("logger.start"); }
  void metrics(const ddprun::MetricRow& /*row*/) override {
    brittle::reach("logger.metrics");
    if (!sink_.empty()) throw std::runtime_error("cannot send to " + sink_);
  }
  void predictions(const ddprun::PredictionTable& /*table*/) override { brittle::reach("logger.predictions"); }
  void flush() override { brittle::reach("logger.flush"); }
  void finish(const ddprun::RunEnd& /*end*/) override { brittle::reach("logger.finish"); }

 private:
  std::string sink_;
};

}  // namespace

DDPRUN_LOGGER(BrittleLogger, "brittle_logger", "writes nothing, and its hooks fail on demand")
