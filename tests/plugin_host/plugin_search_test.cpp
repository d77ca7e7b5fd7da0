// SPDX-License-Identifier: MIT
#include "plugin_host/plugin_search.h"

#include "plugin_host/fixture_files.h"
#include "support/error_of.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdlib>

namespace ddprun {
namespace {

using ::testing::ElementsAre;

namespace fs = std::filesystem;

std::string error_of_finding(const PluginSearch& search, const std::string& choice, const std::string& kind) {
  return error_of([&] { search.find(choice, kind); });
}

class PluginSearchTest : public ::testing::Test {
 protected:
  void copy(const std::string& fixture_name, const fs::path& to) {
    fs::create_directories((folder_.path() / to).parent_path());
    fs::copy_file(fixture(fixture_name), folder_.path() / to);
  }

  const TemporaryFolder folder_;
  const PluginSearch search_{{folder_.path()}};
};

TEST_F(PluginSearchTest, FindsANameInTheFolderAndInItsFoldersOfKinds) {
  copy("reads_all_option_types", "any_file_name.so");
  copy("crosses_the_boundary", "models/model.so");
  EXPECT_EQ(search_.find("reads_all_option_types", "logger").file, folder_.path() / "any_file_name.so");
  EXPECT_EQ(search_.find("crosses_the_boundary", "model").file, folder_.path() / "models/model.so");
  EXPECT_EQ(search_.find("crosses_the_boundary", "").kind, "model");
}

TEST_F(PluginSearchTest, AnUnknownNameListsTheKnownOnesAndTheFolders) {
  copy("reads_all_option_types", "one.so");
  copy("crosses_the_boundary", "two.so");
  const PluginSearch search({folder_.path(), "/no/such/folder"});
  const auto text = error_of_finding(search, "reads_al_option_type", "logger");
  EXPECT_TRUE(says(text, "there is no logger plugin reads_al_option_type; did you mean reads_all_option_types? ... " +
                             folder_.path().string() + " ... /no/such/folder (does not exist)"));
  EXPECT_EQ(text.find("crosses_the_boundary"), text.npos);
  EXPECT_TRUE(says(error_of_finding(search, "wandb", "dataset"), "no dataset plugin was found"));
  EXPECT_TRUE(says(error_of_finding(PluginSearch({}), "x", ""), "the search path is empty"));
  EXPECT_TRUE(says(error_of_finding(search_, "crosses_the_boundary", "optimizer"),
                   "crosses_the_boundary is a model plugin, but an optimizer is needed here"));
  EXPECT_TRUE(says(error_of_finding(search_, fixture("crosses_the_boundary"), "dataset"),
                   "is a model plugin, but a dataset is needed here"));
}

TEST_F(PluginSearchTest, TwoFilesOfOneNameAreAnErrorThatNamesBoth) {
  const PluginSearch search({fixture_folder() / "clash"});
  EXPECT_TRUE(says(error_of_finding(search, "name_clash", "logger"),
                   "clash/clash_one.so ... clash/loggers/clash_two.so ... remove all but one ... write the path"));
  EXPECT_EQ(search.find(fixture("clash/clash_one"), "logger").name, "name_clash");
}

TEST_F(PluginSearchTest, OneFileSeenTwiceIsNoClash) {
  copy("reads_all_option_types", "loggers/one.so");
  fs::create_symlink("one.so", folder_.path() / "loggers/two.so");
  const PluginSearch search({folder_.path(), folder_.path() / "loggers"});
  EXPECT_EQ(search.find("reads_all_option_types", "logger").name, "reads_all_option_types");
}

TEST_F(PluginSearchTest, AFlawedFileIsFoundByItsNameAndSaysItsFlaw) {
  copy("bad_sdk_version", "loggers/old.so");
  folder_.write("loggers/torn.so", "half a libr");
  EXPECT_TRUE(says(error_of_finding(search_, "bad_sdk_version", "logger"),
                   "loggers/old.so: built with ddprun SDK ... rebuild"));
  EXPECT_TRUE(says(error_of_finding(search_, "torn", "logger"), "loggers/torn.so: not a shared library"));
}

TEST_F(PluginSearchTest, APathNeedsASlashAndNeverComesFromTheCurrentFolderByAccident) {
  copy("reads_all_option_types", "mine.so");
  const auto before = fs::current_path();
  fs::current_path(folder_.path());
  const PluginSearch nowhere({"/no/such/folder"});
  EXPECT_TRUE(
      says(error_of_finding(nowhere, "mine.so", "logger"), "for a file of the current folder, write ./mine.so"));
  EXPECT_EQ(nowhere.find("./mine.so", "logger").file, folder_.path() / "mine.so");
  fs::current_path(before);
  EXPECT_EQ(search_.find("mine.so", "logger").file, folder_.path() / "mine.so");
  EXPECT_TRUE(says(error_of_finding(search_, "/no/such.so", "logger"), "/no/such.so: No such file"));
}

TEST_F(PluginSearchTest, ListsFlawedFilesLastWithoutLoadingAny) {
  copy("bad_sdk_version", "a_aborts_when_loaded.so");
  copy("crosses_the_boundary", "b.so");
  folder_.write("c.so", "text");
  folder_.write("readme.txt", "text");
  const auto plugins = search_.list();
  ASSERT_EQ(plugins.size(), 3U);
  EXPECT_EQ(plugins[0].name, "crosses_the_boundary");
  EXPECT_EQ(plugins[0].problem, "");
  EXPECT_NE(plugins[1].problem, "");
  EXPECT_NE(plugins[2].problem, "");
}

TEST(PluginSearchPath, TakesTheExperimentsFoldersThenTheEnvironmentsThenTheProgramsOwn) {
  setenv("DDPRUN_PLUGIN_PATH", "/one::/two:", 1);
  EXPECT_THAT(plugin_search_path({"/mine"}), ElementsAre("/mine", "/one", "/two", own_plugin_folder()));
  unsetenv("DDPRUN_PLUGIN_PATH");
  EXPECT_THAT(plugin_search_path({}), ElementsAre(own_plugin_folder()));
  EXPECT_TRUE(own_plugin_folder().is_absolute());
  EXPECT_THAT(own_plugin_folder().string(), testing::EndsWith("/lib/ddprun/plugins"));
}

}  // namespace
}  // namespace ddprun
