// SPDX-License-Identifier: MIT
#include <ddprun/logger.h>

#include "brittle.h"

namespace {

class BrittleLogger final : public ddprun::Logger {
 public:
  explicit BrittleLogger(ddprun::Options& /*options*/) {}

  void start(const ddprun::RunStart& /*run*/) override { brittle::reach("logger.start"); }
  void metrics(const ddprun::MetricRow& /*row*/) override { brittle::reach("logger.metrics"); }
  void predictions(const ddprun::PredictionTable& /*table*/) override { brittle::reach("logger.predictions"); }
  void flush() override { brittle::reach("logger.flush"); }
  void finish(const ddprun::RunEnd& /*end*/) override { brittle::reach("logger.finish"); }
};

}  // namespace

DDPRUN_LOGGER(BrittleLogger, "brittle_logger", "writes nothing, and its hooks fail on demand")
