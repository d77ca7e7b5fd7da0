// SPDX-License-Identifier: MIT
#include "data/data_form.h"

#include "base/private_folder.h"

#include <ddprun/files.h>

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

TEST(DataForm, TellsHowTheSamplesHaveChanged) {
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

}  // namespace
}  // namespace ddprun
