// SPDX-License-Identifier: MIT
#include "data/data_form.h"

#include "base/private_folder.h"
#include "data/account.h"
#include "support/toy.h"

#include <ddprun/files.h>

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ddprun {
namespace {

using ::testing::HasSubstr;

DataForm form(const std::string& digest, std::array<int64_t, 3> samples = {90, 10, 0}) {
  return {.spec = {.sample_shape = {2}, .classes = 3},
          .bytes = {},
          .samples = samples,
          .account = {.used = 1, .digest = digest}};
}

TEST(DataForm, SaysHowTheSamplesHaveChanged) {
  EXPECT_EQ(changes_since(form("one"), form("one")), "");
  EXPECT_THAT(changes_since(form("one"), form("two")), HasSubstr("as many samples as before, with other names"));
  EXPECT_EQ(changes_since(form("one"), form("two", {91, 10, 1})),
            "train has 91 samples, and had 90; test has 1 samples, and had 0");
}

TEST(DataForm, WithoutAnAccountIsNotComparedAndIsRead) {
  EXPECT_EQ(changes_since(form("", {}), form("one")), "");
  EXPECT_EQ(data_form_from_json(to_json(form(""))).account.digest, "");
  const auto read = data_form_from_json(to_json(form("one")));
  EXPECT_EQ(changes_since(read, form("one")), "");
  EXPECT_EQ(read.samples, form("one").samples);
}

// Pictures of one channel, 10 a side, of which the first `number` rows are white.
class Rows : public testing::ToyDataset {
 public:
  using ToyDataset::ToyDataset;
  DataSpec spec() const override { return {.sample_shape = {1, 10, 10}, .classes = 4}; }
  Batch get(Split, std::span<const int64_t> indices) const override {
    const auto index = at::tensor(at::ArrayRef<int64_t>(indices.data(), indices.size()), at::kLong);
    const auto rows = at::arange(10).view({1, 1, 10, 1}).lt((index + 1).view({-1, 1, 1, 1}));
    return {.input = rows.expand({-1, 1, 10, 10}).to(at::kFloat), .target = index, .index = index};
  }
};

TEST(DataForm, KeepsWhetherPicturesAreLightOnDark) {
  const auto noted = data_form_from_json(to_json(form_of(Rows(3, 0))));
  ASSERT_TRUE(noted.brightness);
  EXPECT_NEAR(noted.brightness->least, 0.1, 1e-6);
  EXPECT_NEAR(noted.brightness->greatest, 0.3, 1e-6);
  EXPECT_TRUE(noted.brightness->all_dark());
  EXPECT_FALSE(form_of(Rows(8, 0)).brightness->all_dark());
  EXPECT_FALSE(data_form_from_json(to_json(form(""))).brightness);
}

TEST(DataForm, NotesTheFilesThatAnExperimentNames) {
  const PrivateFolder folder;
  const auto file = (folder.path() / "net.ts").string();
  const auto scalar = [](const std::string& text) { return Value::scalar(text); };
  auto model = Value::map(), config = Value::map();
  model.set("plugin", scalar(file));
  model.set("file", scalar(file));
  model.set("depth", scalar("18"));
  config.set("model", model);
  replace_file(file, "one");
  DataForm noted = form("");
  noted.files = named_files(config);
  EXPECT_THAT(noted.files, ::testing::ElementsAre(::testing::Key(file)));
  write_data_form(folder.path(), noted);
  const auto warnings = [&] {
    ::testing::internal::CaptureStderr();
    warn_of_other_files(folder.path(), config);
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(warnings(), "");
  replace_file(file, "two");
  EXPECT_THAT(warnings(), HasSubstr("net.ts: is another file now than the run was trained with"));
}

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
  EXPECT_THAT(account_text({.left_alone = {{"hidden", 1, {"a\033[2Jb"}}}}), HasSubstr("(a?[2Jb)"));
}

}  // namespace
}  // namespace ddprun
