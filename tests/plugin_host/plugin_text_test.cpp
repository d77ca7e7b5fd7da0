// SPDX-License-Identifier: MIT
#include "plugin_host/plugin_text.h"

#include "plugin_host/fixture_files.h"

#include <gmock/gmock.h>

#include <sstream>

namespace ddprun {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

size_t widest_line(const std::string& text) {
  size_t width = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) width = std::max(width, line.size());
  return width;
}

const std::string kLongHelp =
    "a help text of many words that does not fit into one line of eighty columns beside a name";

TEST(PluginText, ListsKindNameAndHelpAndTheFilesOutsideTheProgram) {
  const std::vector<PluginInfo> plugins = {
      {.file = "/opt/ddprun/models/mlp.so", .kind = "model", .name = "mlp", .help = kLongHelp},
      {.file = "/home/me/w.so", .kind = "logger", .name = "mine", .help = "my own"}};
  const auto text = plugin_list_text(plugins, "/opt/ddprun");
  EXPECT_EQ(text,
            "kind    name  help\n"
            "model   mlp   a help text of many words that does not fit into one line of\n"
            "              eighty columns beside a name\n"
            "logger  mine  my own\n"
            "              /home/me/w.so\n");
}

TEST(PluginText, FlawedFilesComeWithTheirReasons) {
  const std::vector<PluginInfo> plugins = {
      {.file = "/x/y.so", .kind = "model", .name = "y", .problem = kLongHelp + " " + kLongHelp}};
  const auto text = plugin_list_text(plugins, "/x");
  EXPECT_THAT(text, HasSubstr("no plugins found\n\nThese files cannot be used:\n  /x/y.so\n      a help text"));
  EXPECT_LE(widest_line(text), 80U);
}

TEST(PluginText, ThePageOfAPluginHasItsOptions) {
  auto description = PluginHost({fixture_folder()}).describe("reads_all_option_types", "");
  description.info.file = "/x.so";
  const auto text = plugin_page_text(description);
  EXPECT_THAT(text, HasSubstr("reads_all_option_types: a logger that has an option of each type\n"));
  EXPECT_THAT(text, HasSubstr("  option     type            default     range\n"));
  EXPECT_THAT(text, HasSubstr("  count      int             3           1 .. 9\n      a whole number\n"));
  EXPECT_THAT(text, HasSubstr("  project    string          (required)\n"));
  EXPECT_THAT(text, HasSubstr("  reduction  sum | mean      mean\n"));
  EXPECT_THAT(text, Not(HasSubstr(" \n")));
  EXPECT_LE(widest_line(text), 80U);
}

TEST(PluginText, ThePageOfAPluginWithoutOptionsSaysSo) {
  EXPECT_THAT(plugin_page_text({.info = {.name = "plain"}}), HasSubstr("It takes no options."));
}

}  // namespace
}  // namespace ddprun
