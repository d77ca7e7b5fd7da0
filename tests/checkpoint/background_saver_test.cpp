// SPDX-License-Identifier: MIT
#include "checkpoint/background_saver.h"

#include "checkpoint/checkpoint_fixture.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <future>
#include <stdexcept>

namespace ddprun {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Stands between a save and one of its points until it is opened.
class Gate {
 public:
  void pass() {
    entered_.set_value();
    opened_.get_future().wait();
  }
  void await() { entered_.get_future().wait(); }
  void open() { opened_.set_value(); }

 private:
  std::promise<void> entered_, opened_;
};

class InBackground : public CheckpointTest {
 protected:
  BackgroundSaver saver(const BackgroundSaver::Observer& observer = {}) {
    return BackgroundSaver(std::make_shared<CheckpointWriter>(lone_writer(folder())), observer);
  }
};

TEST_F(InBackground, TheCallerHasItsWayWhileTheCheckpointIsWritten) {
  Gate gate;
  auto saving = saver([&](std::string_view point, int64_t step) {
    EXPECT_EQ(step, 1);
    if (point == "before_rename") gate.pass();
  });
  saving.start(sample_checkpoint(1), false);
  gate.await();
  EXPECT_FALSE(newest());
  EXPECT_FALSE(saving.failed());
  gate.open();
  saving.wait({});
  EXPECT_EQ(newest()->step, 1);
}

TEST_F(InBackground, AWaitingCallerHearsThatTheSaveMoves) {
  Gate waiting, moving;
  auto saving = saver([&](std::string_view point, int64_t) {
    if (point == "model_file") waiting.pass();
    if (point == "done") moving.pass();
  });
  saving.start(sample_checkpoint(1), false);
  int heard = 0;
  saving.wait([&] {
    ++heard;
    if (heard == 1) waiting.open();
    if (heard == 2) moving.open();
  });
  EXPECT_GE(heard, 2);
}

TEST_F(InBackground, AFailureIsThrownOnceWhereItIsAwaited) {
  auto saving = saver([](std::string_view point, int64_t) {
    if (point == "model_file") throw std::runtime_error("no space");
  });
  saving.start(sample_checkpoint(1), false);
  while (!saving.failed()) std::this_thread::yield();
  EXPECT_TRUE(says(error_of([&] { saving.wait({}); }), "no space"));
  EXPECT_FALSE(saving.failed());
  EXPECT_NO_THROW(saving.wait({}));
}

TEST_F(InBackground, WarningsComeWithTheWait) {
  std::filesystem::create_directories(checkpoints_folder(folder()) / "last");  // where the link should stand
  auto saving = saver();
  saving.start(sample_checkpoint(1), false);
  saving.wait({});
  EXPECT_THAT(saving.take_warnings(), ElementsAre(HasSubstr("last")));
  EXPECT_THAT(saving.take_warnings(), ElementsAre());
}

TEST_F(InBackground, ASecondSaveBeforeTheFirstIsAwaitedIsRefused) {
  auto saving = saver();
  saving.start(sample_checkpoint(1), false);
  EXPECT_THROW(saving.start(sample_checkpoint(2), false), std::logic_error);
  saving.wait({});
}

TEST_F(InBackground, IsWhatWasThereWhenItBegan) {
  Gate gate;
  auto saving = saver([&](std::string_view point, int64_t) {
    if (point == "begin") gate.pass();
  });
  const auto live = sample_checkpoint(1);
  Snapshot snapshot;
  saving.start(snapshot.take(live), false);
  gate.await();
  for (const auto& [name, tensor] : live.model) tensor.zero_();  // training continues
  for (const auto& [name, tensor] : live.optimizer) tensor.zero_();
  gate.open();
  saving.wait({});
  EXPECT_TRUE(same(read_checkpoint(verify_checkpoint(checkpoints_folder(folder()) / "last")), sample_checkpoint(1)));
}

TEST(Snapshot, TakesItsMemoryOnceAndFollowsTensorsThatComeGoAndChangeTheirShape) {
  Snapshot snapshot;
  const auto first = snapshot.take(sample_checkpoint(1)), second = snapshot.take(sample_checkpoint(2));
  ASSERT_FALSE(first.model.empty());
  for (const auto& [name, tensor] : second.model)
    EXPECT_EQ(tensor.const_data_ptr(), first.model.at(name).const_data_ptr());
  EXPECT_TRUE(same(second, sample_checkpoint(2)));
  snapshot.take({.optimizer = {{"a", at::ones({2})}, {"b", at::ones({3})}}});
  const auto now = snapshot.take({.optimizer = {{"b", at::zeros({4})}, {"c", at::ones({1}, at::kLong)}}});
  EXPECT_TRUE(same(now.optimizer, {{"b", at::zeros({4})}, {"c", at::ones({1}, at::kLong)}}));
}

}  // namespace
}  // namespace ddprun
