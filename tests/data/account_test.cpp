// SPDX-License-Identifier: MIT
#include "data/account.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using ::testing::HasSubstr;

TEST(DataAccount, IsOneLineThatAddsUpToAllThatLiesThere) {
  const DataAccount account{
      .used = 1016, .left_alone = {{".txt", 12, {"cat/a.txt", "cat/b.txt"}}, {"hidden", 1, {".x"}}, {"unreadable", 3}}};
  EXPECT_EQ(account_text(account),
            "16 of 1,032 files left alone: 12 .txt (such as cat/a.txt), 1 hidden (.x) and 3 "
            "unreadable");
  EXPECT_EQ(account_json(account)["left_alone"][0]["count"], 12);
  EXPECT_EQ(account_json(account)["used"], 1016);
}

TEST(DataAccount, SaysWhereAllIsUsedAndNothingWhereNoneIsKept) {
  EXPECT_EQ(account_text({}), "");
  EXPECT_EQ(account_text({.unit = "shard", .used = 7}), "all 7 shards used");
  EXPECT_EQ(account_text({.unit = "token", .used = 7, .notes = {"2 of 7 targets do not count"}}),
            "all 7 tokens used; 2 of 7 targets do not count");
}

TEST(DataAccount, ShowsNoControlCharacterOfAName) {
  EXPECT_THAT(account_text({.left_alone = {{"hidden", 1, {"a\033[2Jb"}}}}), HasSubstr("(a?[2Jb)"));
}

}  // namespace
}  // namespace ddprun
