// SPDX-License-Identifier: MIT
#include "plugin_host/plugin_check.h"

#include "plugin_host/fixture_files.h"
#include "plugin_host/plugin_search.h"
#include "plugin_host/plugin_text.h"
#include "support/error_of.h"

#include <cstdlib>

namespace ddprun {
namespace {

// The problems of a fixture, a line each.
std::string problems_of(const std::filesystem::path& file, const std::vector<PluginInfo>& known = {},
                        std::chrono::milliseconds patience = std::chrono::minutes(1)) {
  std::string text;
  for (const auto& problem : check_plugin(file, known, patience).problems) text += (text.empty() ? "" : "\n") + problem;
  return text;
}

TEST(PluginCheck, FindsNothingWrongWithAGoodPlugin) {
  const auto check = check_plugin(fixture("reads_all_option_types"), {});
  EXPECT_TRUE(check.problems.empty());
  EXPECT_EQ(check.facts, (std::vector<std::string>{"its descriptor fits this ddprun", "it loads",
                                                   "it is constructed: 10 options, 1 of them required"}));
}

TEST(PluginCheck, NamesFlawsOfTheFileOfItsLoadingAndOfItsConstructor) {
  expect_refused([](const std::string& name) { return problems_of(fixture(name)); },
                 {{"bad_sdk_version", "rebuild the plugin with the SDK"},  // it is not loaded
                  {"bad_no_descriptor", "it has no descriptor"},
                  {"bad_undefined_symbol", "cannot be loaded ... undefined symbol"},
                  {"bad_missing_dependency", "libfixture_missing_library"},
                  {"bad_hidden_symbol", "hides its symbol"},
                  {"bad_throws_in_constructor", "index 7"}});
  EXPECT_TRUE(says(problems_of("/nowhere/my_net.so"), "o such file"));
  const auto known = PluginSearch({fixture_folder() / "clash"}).list();
  ASSERT_EQ(known.size(), 2);
  EXPECT_TRUE(says(problems_of(known[0].file, known), known[1].file.string()));
}

TEST(PluginCheck, SurvivesWhateverAPluginDoesToItsProcess) {
  const auto where = [](const std::string& what) {  // the fixture does what the environment says
    ::setenv("DDPRUN_FIXTURE", what.c_str(), 1);
    const auto patience = what == "hang" ? std::chrono::seconds(3) : std::chrono::seconds(60);
    auto problems = problems_of(fixture("bad_in_the_process"), {}, patience);
    ::unsetenv("DDPRUN_FIXTURE");
    return problems;
  };
  expect_refused(where, {{"", ""},
                         {"kill", "SIGKILL in its constructor"},
                         {"exit 3", "exit code 3 in its constructor"},
                         {"exit", "it ends the process in its constructor"},
                         {"end", "SIGKILL at the end of the process"},
                         {"hang", "it hangs in its constructor"},
                         {"no help", "option size: it has no help"},
                         {"dotted", "option a.b: a name of letters, digits and _"}});
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
