// SPDX-License-Identifier: MIT
#include "launch/worker_process.h"

#include "launch/launcher.h"
#include "support/error_of.h"
#include "support/temporary_folder.h"

#include <tuple>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

class WorkerPlaceTest : public FolderTest {
 protected:
  WorkerPlaceTest() { ::setenv("DDPRUN_PLACE", file_.c_str(), 1); }
  ~WorkerPlaceTest() override { ::unsetenv("DDPRUN_PLACE"); }

  const fs::path file_ = folder_ / "worker_2.json";
  const WorkerPlace kWritten{.attempt = {.number = 5,
                                         .node = 1,
                                         .nodes = 2,
                                         .first_rank = 2,
                                         .world_size = 4,
                                         .run_dir = "/runs/b",
                                         .checkpoint = "/runs/b/checkpoints/step_00000001",
                                         .mark = "12",
                                         .first_node = "node1"},
                             .rank = 3,
                             .local_rank = 1,
                             .local_world_size = 2,
                             .machines = 2,
                             .device = Device::kGpu,
                             .gpu = 1,
                             .gpus = 2,
                             .store = "/tmp/t",
                             .address = "10.0.0.1",
                             .config = "/runs/c.yaml",
                             .heartbeat = "/tmp/h",
                             .probe_answer = "/tmp/p",
                             .failure = "/tmp/f",
                             .task = Task::kPredict,
                             .split = "test",
                             .out = "of any bytes \xff.csv",
                             .inputs = "/tmp/i",
                             .started_at = 12345.0000625};
};

TEST_F(WorkerPlaceTest, IsReadAsItWasWritten) {
  write_place(file_, kWritten);
  const auto read = read_place();
  const auto all = [](const WorkerPlace& place) {
    const auto& attempt = place.attempt;
    return std::tuple_cat(
        std::tie(attempt.number, attempt.node, attempt.nodes, attempt.first_rank, attempt.world_size, attempt.run_dir,
                 attempt.checkpoint, attempt.mark, attempt.first_node),
        std::tie(place.rank, place.local_rank, place.local_world_size, place.machines, place.device, place.gpu,
                 place.gpus, place.store, place.address, place.config, place.heartbeat, place.probe_answer),
        std::tie(place.failure, place.task, place.split, place.out, place.inputs, place.started_at));
  };
  EXPECT_TRUE(all(read) == all(kWritten));
}

TEST_F(WorkerPlaceTest, AMissingOrDamagedOneIsOneClearMessage) {
  const auto problem = [] { return error_of([] { read_place(); }); };
  EXPECT_TRUE(says(problem(), file_.string() + " cannot be read; workers are started"));
  write_place(file_, kWritten);
  const auto whole = read(file_);
  for (const auto& [was, is] : {std::pair<std::string, std::string>("\"rank\": 3", "\"rank\": 4"),
                                {"\"rank\": 3", "\"rank\": -1"},
                                {"\"rank\": 3", "\"rank\": 1e300"},
                                {"\"rank\": 3", "\"rank\": \"x\""},
                                {"\"rank\": 3,", ""},
                                {"\"local_rank\": 1", "\"local_rank\": 2"},
                                {"\"predict\"", "\"dance\""},
                                {"\"/tmp/t\"", "7"},
                                {"{", "["}}) {
    auto text = whole;
    write(file_, text.replace(text.find(was), was.size(), is));
    EXPECT_TRUE(says(problem(), file_.string() + " is damaged: ")) << is;
  }
  ::unsetenv("DDPRUN_PLACE");
  EXPECT_TRUE(says(problem(), "DDPRUN_PLACE is not set; workers are started by ddprun"));
}

TEST(LaunchPlan, ItsWorkersHaveConsecutiveRanksAndShareGpusInTurn) {
  LaunchPlan plan{.place = {.attempt = {.first_rank = 4, .world_size = 8, .run_dir = "run"}, .local_world_size = 4},
                  .workers = 4};
  EXPECT_EQ(plan.worker(3).rank, 7);
  EXPECT_EQ(plan.worker(3).local_rank, 3);
  EXPECT_EQ(plan.worker(3).gpu, 3);
  plan.shared_gpus = 2;
  EXPECT_EQ(plan.worker(3).gpu, 1);
  plan.place.gpu = 0;
  EXPECT_EQ(plan.worker(3).gpu, 0) << "an engine shows it this one";
}

class FailureFileTest : public FolderTest {
 protected:
  const fs::path file_ = folder_ / "failure.json";
};

TEST_F(FailureFileTest, IsReadAsItWasWrittenWithAnyBytes) {
  const std::string message = "a \"quoted\"\npath \xff\xfe";
  write_failure(file_, {3, 12.5, FailureKind::kInternal, message, "saving", 77, "model"});
  const auto failure = read_failure(file_);
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->rank, 3);
  EXPECT_EQ(failure->time, 12.5);
  EXPECT_EQ(failure->message, message);
  EXPECT_EQ(failure->phase, "saving");
  EXPECT_EQ(failure->step, 77);
  EXPECT_EQ(failure->section, "model");
}

TEST_F(FailureFileTest, NoneOrAForeignOneIsNothingAndWritingNeverThrows) {
  EXPECT_FALSE(read_failure(file_));
  for (const char* text : {"", "{", "[]", "{\"kind\": 1}"}) {
    write(file_, text);
    EXPECT_FALSE(read_failure(file_)) << text;
  }
  EXPECT_NO_THROW(write_failure("/dev/null/failure.json", {0, 1, FailureKind::kUser, "x", "starting", -1}));
}

}  // namespace
}  // namespace ddprun
