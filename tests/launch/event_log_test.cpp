// SPDX-License-Identifier: MIT
#include "launch/event_log.h"

#include "support/temporary_folder.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>

namespace ddprun {
namespace {

class EventLog : public FolderTest {};

std::vector<std::string> lines(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::vector<std::string> result;
  for (std::string line; std::getline(stream, line);) result.push_back(line);
  return result;
}

TEST_F(EventLog, EveryEventIsALine) {
  append_event(folder_, {.attempt = 0, .kind = "attempt", .text = "2 workers"});
  append_event(folder_, {.attempt = 0, .kind = "failure", .text = "rank 1: \"quoted\" \xff"});
  const auto written = lines(folder_ / "events.jsonl");
  ASSERT_EQ(written.size(), 2U);
  EXPECT_EQ(nlohmann::json::parse(written[0])["kind"], "attempt");
  EXPECT_EQ(nlohmann::json::parse(written[1])["attempt"], 0);
}

TEST_F(EventLog, HalfALineOfAKilledWorkerIsEndedFirst) {
  std::ofstream(folder_ / "events.jsonl") << "{\"kind\": \"check";
  append_event(folder_, {.attempt = 1, .kind = "end", .text = "completed"});
  const auto written = lines(folder_ / "events.jsonl");
  ASSERT_EQ(written.size(), 2U);
  EXPECT_EQ(nlohmann::json::parse(written[1])["kind"], "end");
}

TEST_F(EventLog, AFileThatCannotBeWrittenEndsNothing) {
  EXPECT_NO_THROW(append_event("/dev/null/at/all", {.kind = "end", .text = "completed"}));
}

}  // namespace
}  // namespace ddprun
