// SPDX-License-Identifier: MIT
// Writes the record of this rank's collectives into the run's folder when the launcher asks what the rank is doing: no
// other thread of a hanging process could.
#pragma once

#include "device/flight_record.h"

#include <filesystem>
#include <functional>
#include <thread>

namespace ddprun {

class FlightRecordWriter {
 public:
  // Writes to <logs>/collectives_rank_<rank>, and those under way to <logs>/under_way_rank_<rank>.json, complete or not
  // at all. `record` is called on a thread of this object. Construct it after answer_launcher (worker/crash_handler.h),
  // one at a time.
  FlightRecordWriter(const std::filesystem::path& logs, int rank, std::function<FlightRecord()> record);
  ~FlightRecordWriter();
  FlightRecordWriter(const FlightRecordWriter&) = delete;
  FlightRecordWriter& operator=(const FlightRecordWriter&) = delete;

 private:
  void work();

  std::filesystem::path pickled_, under_way_;
  std::function<FlightRecord()> record_;
  int event_;  // an eventfd, signalled by each question; closed with the object
  std::jthread thread_;
};

}  // namespace ddprun
