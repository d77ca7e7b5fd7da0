// SPDX-License-Identifier: MIT
#include <ddprun/logger.h>

namespace ddprun {

Logger::~Logger() = default;
void Logger::metrics(const MetricRow&) {}
void Logger::progress(const RunProgress&) {}
void Logger::confusion(const ConfusionTable&) {}
void Logger::predictions(const PredictionTable&) {}
void Logger::text(const std::string&) {}
void Logger::flush() {}
void Logger::finish(const RunEnd&) {}

}  // namespace ddprun
