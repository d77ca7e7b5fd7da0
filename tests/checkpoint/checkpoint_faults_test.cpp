// SPDX-License-Identifier: MIT
// What a kill, a full disk or a read-only folder in the middle of a save leaves behind. The saves run in forked
// children.
#include "checkpoint/checkpoint_fixture.h"
#include "checkpoint/checkpoint_writer.h"

#include <ATen/Functions.h>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>

namespace ddprun {
namespace {

constexpr int kAsExpected = 0, kNotExpected = 1, kCannotGiveUpRights = 77;

std::optional<CheckpointInfo> newest_without_flaws(const std::filesystem::path& run_dir) {
  std::vector<CheckpointFlaw> flaws;
  auto info = newest_checkpoint(run_dir, flaws);
  for (const auto& flaw : flaws) ADD_FAILURE() << flaw.problem;
  return info;
}

constexpr std::array kPoints = {"begin",         "created",      "rank_file",    "model_file",
                                "state_file",    "own_part",     "compared",     "before_manifest",
                                "before_rename", "after_rename", "before_prune", "done"};
constexpr std::array kOfShared = {"created", "own_part", "compared"};

// With checkpoints that this rank writes, or that all ranks do, of which this one has everything.
class Killed : public CheckpointTest, public ::testing::WithParamInterface<bool> {
 protected:
  static Checkpoint checkpoint(int64_t step) {
    return GetParam() ? part_of(rich_checkpoint(step), 0, 1) : rich_checkpoint(step);
  }

  // Runs the body for each point of a save, in a run folder of its own.
  void at_each_point(const std::function<void(const std::string& point, const std::filesystem::path& run)>& body) {
    for (const std::string point : kPoints) {
      if (!GetParam() && std::ranges::count(kOfShared, point) > 0) continue;
      SCOPED_TRACE(point);
      std::filesystem::create_directory(file(point));
      body(point, file(point));
    }
  }

  // Saves `step` and is killed at the point.
  static void save_and_die(const std::string& point, const std::filesystem::path& run, int64_t step, bool best) {
    const int status = status_of_child([&] {
      auto writer = lone_writer(run, 1);
      writer.set_save_observer([&](std::string_view reached) {
        if (reached == point) ::kill(::getpid(), SIGKILL);
      });
      writer.save(checkpoint(step), best);
    });
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  }

  static bool is_in_place(const std::string& point) {
    return point == "after_rename" || point == "before_prune" || point == "done";
  }
};

TEST_P(Killed, LeavesTheOldOrTheNewCheckpointWholeAndNothingThatTheNextSavesDoNotTidyUp) {
  at_each_point([](const std::string& point, const std::filesystem::path& run) {
    lone_writer(run, 1).save(checkpoint(1), true);
    save_and_die(point, run, 2, true);
    {
      const auto info = newest_without_flaws(run);  // what is held is not pruned
      ASSERT_TRUE(info);
      EXPECT_TRUE(same(read_checkpoint(*info), checkpoint(is_in_place(point) ? 2 : 1)));
    }
    for (const auto* link : {"last", "best"}) EXPECT_NO_THROW(verify_checkpoint(checkpoints_folder(run) / link));

    if (!is_in_place(point)) lone_writer(run, 1).save(checkpoint(2), true);
    lone_writer(run, 1).save(checkpoint(3), false);
    EXPECT_EQ(names_in(checkpoints_folder(run)), "best last step_00000002 step_00000003");
    EXPECT_EQ(verify_checkpoint(checkpoints_folder(run) / "best").step, 2);
  });
}

TEST_P(Killed, InTheFirstSaveLeavesNoneOrAWholeOne) {
  at_each_point([](const std::string& point, const std::filesystem::path& run) {
    save_and_die(point, run, 1, false);
    EXPECT_EQ(newest_without_flaws(run).has_value(), is_in_place(point));
  });
}

// Step 2 is broken when it is written again: it is never taken for whole, and step 1 stays.
TEST_P(Killed, WhileReplacingABrokenOneLeavesTheOlderOrTheNew) {
  at_each_point([](const std::string& point, const std::filesystem::path& run) {
    auto writer = lone_writer(run, 3);
    writer.save(checkpoint(1), false);
    write_bytes(writer.save(checkpoint(2), false) / "optimizer.safetensors", "nonsense");
    save_and_die(point, run, 2, false);
    std::vector<CheckpointFlaw> flaws;
    const auto info = newest_checkpoint(run, flaws);
    ASSERT_TRUE(info);
    EXPECT_EQ(info->step, is_in_place(point) ? 2 : 1);
  });
}

INSTANTIATE_TEST_SUITE_P(Shared, Killed, ::testing::Bool(),
                         [](const auto& shared) { return shared.param ? "ByAll" : "ByOne"; });

class FullDisk : public CheckpointTest {
 protected:
  // In a child: saves step 1, then `bad` under `harm`. The failure must say `cause` and leave step 1 alone.
  int save_under(const Checkpoint& bad, const std::function<void()>& harm, const std::string& cause) const {
    auto writer = lone_writer(folder());
    writer.save(sample_checkpoint(1), true);
    harm();
    const auto text = error_of([&] { writer.save(bad, true); });
    std::fprintf(stderr, "%s\n", text.c_str());
    const bool said = says(text, cause) && says(text, "run.dir");
    return said && names() == "best last step_00000001" && newest()->step == 1 ? kAsExpected : kNotExpected;
  }

  static int exit_code_of(const std::function<int()>& body) {
    const int status = status_of_child([&] { ::_exit(body()); });
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

  static Checkpoint large(const std::string& part) {
    auto checkpoint = sample_checkpoint(2);
    const auto megabytes = at::zeros({4 << 20}, at::kByte);
    if (part == "model") checkpoint.model["large"] = megabytes;
    if (part == "optimizer" || part == "shared_optimizer") checkpoint.optimizer["large"] = megabytes;
    if (part == "rank") checkpoint.ranks[0]["large"] = megabytes;
    checkpoint.is_shared = part == "shared_optimizer";
    return checkpoint;
  }
};

// A limit on the size of files is met in the middle of a write(), as the end of the disk is.
TEST_F(FullDisk, LimitOnFileSizeIsAnErrorThatLeavesOlderOnesAlone) {
  const auto limit = [] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit two_megabytes{2 << 20, 2 << 20};
    ::setrlimit(RLIMIT_FSIZE, &two_megabytes);
  };
  for (const std::string part : {"model", "optimizer", "shared_optimizer", "rank"}) {
    EXPECT_EQ(exit_code_of([&] { return save_under(large(part), limit, "File too large"); }), kAsExpected) << part;
    std::filesystem::remove_all(checkpoints_folder(folder()));
  }
}

TEST_F(FullDisk, ReadOnlyFolderIsAnErrorThatLeavesOlderOnesAlone) {
  std::filesystem::permissions(folder(), std::filesystem::perms::all);
  const int code = exit_code_of([&] {
    if (::geteuid() == 0 && ::setuid(65534) != 0) return kCannotGiveUpRights;  // root may write everywhere
    const auto lock = [&] { std::filesystem::permissions(checkpoints_folder(folder()), std::filesystem::perms(0555)); };
    return save_under(sample_checkpoint(2), lock, "Permission denied");
  });
  if (code == kCannotGiveUpRights) GTEST_SKIP() << "cannot give up root's rights";
  EXPECT_EQ(code, kAsExpected);
}

}  // namespace
}  // namespace ddprun
