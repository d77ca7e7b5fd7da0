// SPDX-License-Identifier: MIT
#include "launch/worker_process.h"

#include <ddprun/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

namespace ddprun {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class WorkerPlaceTest : public ::testing::Test {
 protected:
  WorkerPlaceTest() {
    set("RANK", "2"), set("WORLD_SIZE", "4"), set("LOCAL_RANK", "0"), set("LOCAL_WORLD_SIZE", "2");
    set("DDPRUN_ATTEMPT", "1"), set("DDPRUN_RUN_DIR", "/runs/a"), set("DDPRUN_STORE", "/tmp/s"),
        set("DDPRUN_STARTED_AT", "1.5");
  }
  void set(const char* name, const char* value) { ::setenv(name, value, 1); }
};

TEST_F(WorkerPlaceTest, ReadsAll) {
  const auto place = read_worker_place();
  EXPECT_EQ(place.rank, 2);
  EXPECT_EQ(place.world_size, 4);
  EXPECT_EQ(place.local_rank, 0);
  EXPECT_EQ(place.local_world_size, 2);
  EXPECT_EQ(place.attempt, 1);
  EXPECT_EQ(place.run_dir, "/runs/a");
  EXPECT_EQ(place.store, "/tmp/s");
  EXPECT_EQ(place.started_at, 1.5);
}

TEST_F(WorkerPlaceTest, WorkersShareGpusInTurn) {
  set("LOCAL_WORLD_SIZE", "4"), set("LOCAL_RANK", "3");
  EXPECT_EQ(read_worker_place().gpu, 3);
  set("DDPRUN_SHARED_GPUS", "2");
  EXPECT_EQ(read_worker_place().gpu, 1);
  ::unsetenv("DDPRUN_SHARED_GPUS");
}

TEST_F(WorkerPlaceTest, ReadsWhatTheLauncherWrites) {
  const WorkerPlace written{.rank = 3,
                            .world_size = 4,
                            .local_rank = 1,
                            .local_world_size = 2,
                            .nodes = 2,
                            .shared_gpus = 1,
                            .gpus = 2,
                            .attempt = 5,
                            .run_dir = "/runs/b",
                            .config = "/runs/c.yaml",
                            .store = "/tmp/t",
                            .address = "10.0.0.1",
                            .heartbeat = "/tmp/h",
                            .probe_answer = "/tmp/p",
                            .failure = "/tmp/f",
                            .device = Device::kGpu,
                            .checkpoint = "/runs/b/checkpoints/step_00000001",
                            .task = Task::kPredict,
                            .split = "test",
                            .out = "out.csv",
                            .started_at = 2.25};
  for (const auto& [name, value] : to_environment(written)) set(name.c_str(), value.c_str());
  const auto read = read_worker_place();
  for (const auto& [name, value] : to_environment(written)) {
    if (name.starts_with("DDPRUN_")) ::unsetenv(name.c_str());
  }
  auto expected = written;
  expected.gpu = 0;  // the local rank, modulo those that are shared
  EXPECT_THAT(to_environment(read), ::testing::ElementsAreArray(to_environment(expected)));
}

TEST_F(WorkerPlaceTest, MissingOrMalformedIsNamed) {
  for (const char* value : {"", "x", "2x", "-1", "99999999999", "4"}) {
    set("RANK", value);
    EXPECT_THAT(read_worker_place, ThrowsMessage<UserError>(HasSubstr("RANK"))) << value;
  }
  set("RANK", "0");
  ::unsetenv("DDPRUN_STORE");
  EXPECT_THAT(read_worker_place, ThrowsMessage<UserError>(HasSubstr("DDPRUN_STORE is not set")));
}

class FailureFileTest : public ::testing::Test {
 protected:
  FailureFileTest() {
    std::string pattern = (fs::temp_directory_path() / "failure_test-XXXXXX").string();
    folder_ = ::mkdtemp(pattern.data());
    file_ = folder_ / "failure.json";
  }
  ~FailureFileTest() override { fs::remove_all(folder_); }

  fs::path folder_, file_;
};

TEST_F(FailureFileTest, IsReadAsItWasWritten) {
  write_failure(file_, {3, 12.5, FailureKind::kInternal, "a \"quoted\"\nmessage", "saving", 77, "model"});
  const auto failure = read_failure(file_);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 3);
  EXPECT_EQ(failure->time, 12.5);
  EXPECT_EQ(failure->message, "a \"quoted\"\nmessage");
  EXPECT_EQ(failure->phase, "saving");
  EXPECT_EQ(failure->step, 77);
  EXPECT_EQ(failure->section, "model");
}

TEST_F(FailureFileTest, AnyBytesAreAMessage) {
  write_failure(file_, {0, 1, FailureKind::kUser, "path \xff\xfe", "starting", -1});
  EXPECT_TRUE(read_failure(file_));
}

TEST_F(FailureFileTest, NoneOrAForeignOneIsNothing) {
  EXPECT_FALSE(read_failure(file_));
  for (const char* text : {"", "{", "[]", "{\"kind\": 1}"}) {
    std::ofstream(file_) << text;
    EXPECT_FALSE(read_failure(file_)) << text;
  }
}

TEST_F(FailureFileTest, WritingNeverThrows) {
  EXPECT_NO_THROW(write_failure("/dev/null/failure.json", {0, 1, FailureKind::kUser, "x", "starting", -1}));
}

}  // namespace
}  // namespace ddprun
