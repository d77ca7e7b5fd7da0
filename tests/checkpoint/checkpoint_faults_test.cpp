// SPDX-License-Identifier: MIT
// What a kill, a full disk or a read-only folder in the middle of a save leaves behind. The saves run in forked
// children.
#include "checkpoint/checkpoint_fixture.h"
#include "checkpoint/checkpoint_writer.h"

#include <ddprun/error.h>

#include <ATen/Functions.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>

namespace ddprun {
namespace {

using ::testing::ElementsAre;

constexpr int kAsExpected = 0;
constexpr int kNotExpected = 1;
constexpr int kCannotMount = 77;

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

TEST_P(Killed, LeavesTheOldOrTheNewCheckpointWhole) {
  at_each_point([](const std::string& point, const std::filesystem::path& run) {
    lone_writer(run, 1).save(checkpoint(1), true);
    save_and_die(point, run, 2, true);

    const auto info = newest_without_flaws(run);
    ASSERT_TRUE(info);
    EXPECT_TRUE(same(read_checkpoint(*info), checkpoint(is_in_place(point) ? 2 : 1)));
    EXPECT_NO_THROW(verify_checkpoint(checkpoints_folder(run) / "last"));
    EXPECT_NO_THROW(verify_checkpoint(checkpoints_folder(run) / "best"));
  });
}

TEST_P(Killed, LeavesNothingThatTheNextSavesDoNotTidyUp) {
  at_each_point([](const std::string& point, const std::filesystem::path& run) {
    lone_writer(run, 1).save(checkpoint(1), true);
    save_and_die(point, run, 2, true);
    if (!is_in_place(point)) lone_writer(run, 1).save(checkpoint(2), true);
    lone_writer(run, 1).save(checkpoint(3), false);
    EXPECT_THAT(names_in_checkpoints(run), ElementsAre("best", "last", "step_00000002", "step_00000003"));
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
  // In a child: saves step 1, then `bad` under `harm`. The failure must tell `cause` and leave step 1 alone.
  static int save_under(const std::filesystem::path& run_dir, const Checkpoint& bad, const std::function<void()>& harm,
                        const std::string& cause) {
    auto writer = lone_writer(run_dir);
    writer.save(sample_checkpoint(1), true);
    harm();
    try {
      writer.save(bad, true);
    } catch (const UserError& error) {
      const std::string text = error.what();
      const bool told = text.find(cause) != std::string::npos && text.find("run.dir") != std::string::npos;
      std::vector<CheckpointFlaw> flaws;
      const auto newest = newest_checkpoint(run_dir, flaws);
      const bool clean = names_in_checkpoints(run_dir) == std::vector<std::string>{"best", "last", "step_00000001"};
      std::fprintf(stderr, "%s\n", text.c_str());
      return told && clean && newest && newest->step == 1 ? kAsExpected : kNotExpected;
    }
    return kNotExpected;
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

class FullDiskIn : public FullDisk, public ::testing::WithParamInterface<const char*> {};

// A limit on the size of files is met in the middle of a write(), as the end of the disk is.
TEST_P(FullDiskIn, LimitOnFileSizeIsAnErrorThatLeavesOlderOnesAlone) {
  const auto limit = [] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit two_megabytes{2 << 20, 2 << 20};
    ::setrlimit(RLIMIT_FSIZE, &two_megabytes);
  };
  EXPECT_EQ(exit_code_of([&] { return save_under(folder(), large(GetParam()), limit, "File too large"); }),
            kAsExpected);
}

TEST_P(FullDiskIn, SmallTmpfsIsAnErrorThatLeavesOlderOnesAlone) {
  const int code = exit_code_of([&] {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        ::mount("tmpfs", folder().c_str(), "tmpfs", 0, "size=2m") != 0) {
      return kCannotMount;
    }
    return save_under(folder(), large(GetParam()), [] {}, "No space left on device");
  });
  if (code == kCannotMount) GTEST_SKIP() << "mounting a tmpfs needs root and a kernel that allows it";
  EXPECT_EQ(code, kAsExpected);
}

INSTANTIATE_TEST_SUITE_P(Part, FullDiskIn, ::testing::Values("model", "optimizer", "shared_optimizer", "rank"),
                         [](const auto& part) { return std::string(part.param); });

TEST_F(FullDisk, ReadOnlyFolderIsAnErrorThatLeavesOlderOnesAlone) {
  std::filesystem::permissions(folder(), std::filesystem::perms::all);
  const int code = exit_code_of([&] {
    if (::geteuid() == 0 && ::setuid(65534) != 0) return kCannotMount;  // root may write everywhere
    const auto checkpoints = checkpoints_folder(folder());
    const auto lock = [&] { std::filesystem::permissions(checkpoints, std::filesystem::perms(0555)); };
    return save_under(folder(), sample_checkpoint(2), lock, "Permission denied");
  });
  if (code == kCannotMount) GTEST_SKIP() << "cannot give up root's rights";
  EXPECT_EQ(code, kAsExpected);
}

}  // namespace
}  // namespace ddprun
