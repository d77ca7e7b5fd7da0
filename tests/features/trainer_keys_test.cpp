// SPDX-License-Identifier: MIT
// Keys of features in the section trainer, which are read there as the core's are.
#include "config/config_fixture.h"
#include "features/max_time/max_time_section.h"
#include "features/system_rows/system_rows_section.h"
#include "features/verify_shards/verify_shards_section.h"
#include "features/work/work_section.h"

namespace ddprun {
namespace {

using testing::HasSubstr;
using TrainerKeys = ConfigFixture;

TEST_F(TrainerKeys, OfFeaturesAreReadIntoTheirStructs) {
  const auto set =
      loaded(kMinimal + "trainer: {max_time: 90min, system_metrics_seconds: 0, verify_shards: true, peak_tflops: 3}\n");
  EXPECT_EQ(set.features.of<MaxTimeConfig>().seconds, 5400);
  EXPECT_EQ(set.features.of<SystemRowsConfig>().seconds, 0);
  EXPECT_TRUE(set.features.of<VerifyShardsConfig>().on);
  EXPECT_EQ(set.features.of<WorkConfig>().peak_tflops, 3);
  const auto absent = loaded(kMinimal);
  EXPECT_EQ(absent.features.of<MaxTimeConfig>().seconds, 0);
  EXPECT_EQ(absent.features.of<SystemRowsConfig>().seconds, 5);
  EXPECT_FALSE(absent.features.of<VerifyShardsConfig>().on);
  EXPECT_EQ(absent.features.of<WorkConfig>().peak_tflops, 0);
}

TEST_F(TrainerKeys, OfFeaturesAreCheckedWithThoseOfTheCore) {
  EXPECT_EQ(load_error(kMinimal + "trainer: {peak_tflops: -1, max_epochs: 0, verify_shard: true}\n"),
            "e.yaml:4:40: trainer.max_epochs: expected int 1 .. 1000000000, found 0\n"
            "e.yaml:4:24: trainer.peak_tflops: expected float 0 .. 1e+09, found -1\n"
            "e.yaml:4:43: trainer.verify_shard: unknown key; did you mean verify_shards?");
}

}  // namespace
}  // namespace ddprun
