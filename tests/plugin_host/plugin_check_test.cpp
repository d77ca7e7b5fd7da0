// SPDX-License-Identifier: MIT
#include "plugin_host/plugin_check.h"

#include "plugin_host/fixture_files.h"
#include "plugin_host/plugin_search.h"
#include "plugin_host/plugin_text.h"

#include <gmock/gmock.h>

#include <cstdlib>

namespace ddprun {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> problems_of(const std::string& name) { return check_plugin(fixture(name), {}).problems; }

// Returns the problems of the fixture that does what the environment says.
std::vector<std::string> problems_where(const char* what,
                                        std::chrono::milliseconds patience = std::chrono::minutes(1)) {
  ::setenv("DDPRUN_FIXTURE", what, 1);
  auto problems = check_plugin(fixture("bad_in_the_process"), {}, patience).problems;
  ::unsetenv("DDPRUN_FIXTURE");
  return problems;
}

TEST(PluginCheck, FindsNothingWrongWithAGoodPlugin) {
  const auto check = check_plugin(fixture("reads_all_option_types"), {});
  EXPECT_THAT(check.problems, IsEmpty());
  EXPECT_THAT(check.facts, ElementsAre("its descriptor fits this ddprun", "it loads",
                                       "it is constructed: 10 options, 1 of them required"));
}

TEST(PluginCheck, TellsFlawsOfTheFileWithoutLoadingIt) {
  EXPECT_THAT(problems_of("bad_sdk_version"), ElementsAre(HasSubstr("rebuild the plugin with the SDK")));
  EXPECT_THAT(problems_of("bad_no_descriptor"), ElementsAre(HasSubstr("it has no descriptor")));
  EXPECT_THAT(check_plugin("/nowhere/my_net.so", {}).problems, ElementsAre(HasSubstr("o such file")));
}

TEST(PluginCheck, TellsWhyItCannotBeLoaded) {
  EXPECT_THAT(problems_of("bad_undefined_symbol"),
              ElementsAre(AllOf(HasSubstr("cannot be loaded"), HasSubstr("undefined symbol"))));
  EXPECT_THAT(problems_of("bad_missing_dependency"), ElementsAre(HasSubstr("libfixture_missing_library")));
  EXPECT_THAT(problems_of("bad_hidden_symbol"), ElementsAre(HasSubstr("hides its symbol")));
}

TEST(PluginCheck, TellsWhatTheConstructorThrows) {
  EXPECT_THAT(problems_of("bad_throws_in_constructor"), ElementsAre(HasSubstr("index 7")));
}

TEST(PluginCheck, SurvivesWhateverAPluginDoesToItsProcess) {
  EXPECT_THAT(problems_where(""), IsEmpty());
  EXPECT_THAT(problems_where("kill"), ElementsAre("SIGKILL in its constructor"));
  EXPECT_THAT(problems_where("exit 3"), ElementsAre("exit code 3 in its constructor"));
  EXPECT_THAT(problems_where("exit"), ElementsAre("it ends the process in its constructor"));
  EXPECT_THAT(problems_where("end"), ElementsAre("SIGKILL at the end of the process"));
}

TEST(PluginCheck, EndsAPluginThatHangs) {
  EXPECT_THAT(problems_where("hang", std::chrono::seconds(3)), ElementsAre("it hangs in its constructor"));
}

TEST(PluginCheck, TellsFlawsOfOptions) {
  EXPECT_THAT(problems_where("no help"), ElementsAre(HasSubstr("option size: it has no help")));
  EXPECT_THAT(problems_where("dotted"), ElementsAre(HasSubstr("option a.b: a name of letters, digits and _")));
}

TEST(PluginCheck, TellsOfAnotherPluginOfTheSameName) {
  const auto known = PluginSearch({fixture_folder() / "clash"}).list();
  ASSERT_EQ(known.size(), 2);
  EXPECT_THAT(check_plugin(known[0].file, known).problems, ElementsAre(HasSubstr(known[1].file.string())));
}

TEST(PluginCheck, ItsTextHasALineForEachFinding) {
  const PluginCheck check{.info = {.file = "my_net.so", .kind = "model", .name = "my_net"},
                          .facts = {"it loads"},
                          .problems = {"SIGSEGV in its constructor"}};
  EXPECT_EQ(plugin_check_text(check),
            "my_net.so: model my_net\n  ok     it loads\n  wrong  SIGSEGV in its constructor\n");
}

}  // namespace
}  // namespace ddprun
