// SPDX-License-Identifier: MIT
#include "worker/flight_record_writer.h"

#include "support/temporary_folder.h"
#include "worker/crash_handler.h"

#include <gtest/gtest.h>

#include <csignal>
#include <future>

namespace ddprun {
namespace {

class FlightRecordWriterTest : public FolderTest {
 protected:
  // Asks as launchers do, and waits until the record is made.
  void ask(const FlightRecord& record) const {
    std::promise<void> made;
    answer_launcher(folder_ / "probe_answer");
    const FlightRecordWriter writer(folder_, 3, [&] {
      made.set_value();
      return record;
    });
    std::raise(SIGUSR2);
    made.get_future().wait();
  }
};

TEST_F(FlightRecordWriterTest, WritesWhenTheLauncherAsks) {
  ask({.pickled = "all", .under_way = "{}"});
  EXPECT_EQ(read(folder_ / "collectives_rank_3"), "all");
  EXPECT_EQ(read(folder_ / "under_way_rank_3.json"), "{}");
}

TEST_F(FlightRecordWriterTest, NothingForTorchfrtraceMeansNoFile) {
  ask({.under_way = "{}"});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "collectives_rank_3"));
}

TEST_F(FlightRecordWriterTest, NobodyAskedNothingWritten) {
  {
    const FlightRecordWriter writer(folder_, 3, [] { return FlightRecord{.pickled = "all"}; });
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

}  // namespace
}  // namespace ddprun
