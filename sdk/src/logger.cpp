// SPDX-License-Identifier: MIT
#include <ddprun/logger.h>

namespace ddprun {

Logger::~Logger() = default;
void Logger::metrics(const MetricRow&) {}
void Logger::progress(const RunProgress&) {}
void Logger::confusion(const ConfusionTable&) {}
void Logger::predictions(const PredictionTable&) {}
void Logger::histograms(const HistogramTable&) {}
void Logger::event(const RunEvent&) {}
void Logger::flush() {}
void Logger::finish(const RunEnd&) {}
bool Logger::only_shows() const { return false; }
Sidecar Logger::sidecar() const { return {}; }

}  // namespace ddprun
