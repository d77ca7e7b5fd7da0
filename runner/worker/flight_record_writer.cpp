// SPDX-License-Identifier: MIT
#include "worker/flight_record_writer.h"

#include "base/log.h"
#include "worker/crash_handler.h"

#include <ddprun/files.h>

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>

namespace ddprun {
namespace {

constexpr uint64_t kEnd = uint64_t{1} << 32;  // beyond any number of questions

}  // namespace

FlightRecordWriter::FlightRecordWriter(const std::filesystem::path& logs, int rank,
                                       std::function<FlightRecord()> record)
    : pickled_(logs / ("collectives_rank_" + std::to_string(rank))),
      under_way_(logs / ("under_way_rank_" + std::to_string(rank) + ".json")),
      record_(std::move(record)),
      event_(::eventfd(0, EFD_CLOEXEC)) {
  if (event_ < 0) return;
  thread_ = std::jthread([this] { work(); });
  wake_when_asked(event_);
}

FlightRecordWriter::~FlightRecordWriter() {
  if (event_ < 0) return;
  wake_when_asked(-1);
  [[maybe_unused]] const auto written = ::write(event_, &kEnd, sizeof kEnd);
  thread_.join();
  ::close(event_);
}

void FlightRecordWriter::work() {
  for (;;) {
    uint64_t number = 0;
    if (::read(event_, &number, sizeof number) < 0 && errno != EINTR) return;
    if (number >= kEnd) return;
    if (number == 0) continue;
    try {
      const auto record = record_();
      replace_file(under_way_, record.under_way);
      if (!record.pickled.empty()) replace_file(pickled_, record.pickled);
    } catch (const std::exception& error) {
      log::warn(std::string("no record of the collectives: ") + error.what());
    }
  }
}

}  // namespace ddprun
