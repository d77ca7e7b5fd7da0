// SPDX-License-Identifier: MIT
#include "cli/yaml_template.h"

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <stdexcept>

namespace ddprun {
namespace {

TEST(YamlTemplate, FillsTextsInQuotesAndNumbersOutside) {
  EXPECT_EQ(filled("a: {b: \"${x}-${y}\", c: ${y}}\n", {{"x", {"it's \"x\" \\"}}, {"y", {"7"}}}),
            "a: {b: \"it's \\\"x\\\" \\\\-7\", c: 7}\n");
}

TEST(YamlTemplate, RepeatsALineForEachValueAndLeavesItOutForNone) {
  const PlaceValues values{{"one", {"1"}}, {"many", {"a", "b"}}, {"none", {}}};
  EXPECT_EQ(filled("first\n- \"${one} ${many}\"\n- \"${one} ${many} ${none}\"\n## a note on ${this}\nlast", values),
            "first\n- \"1 a\"\n- \"1 b\"\nlast\n");
}

TEST(YamlTemplate, DoesNotFillWhatAValueHolds) {
  EXPECT_EQ(filled("\"${x}\"\n", {{"x", {"${x} ${y}"}}}), "\"${x} ${y}\"\n");
}

TEST(YamlTemplate, RefusesAnUnknownPlaceAndTextWhereANumberBelongs) {
  const PlaceValues values{{"x", {"a b"}}, {"none", {}}};
  for (const char* line : {"\"${X}\"", "${none} \"${y}\"", "\"${}\"", "\"${x", "\"${", "${x}", "\"${x}\" ${x}"})
    EXPECT_THROW(filled(line, values), std::logic_error) << line;
}

TEST(YamlTemplate, EveryCharacterIsReadBack) {
  std::string text = "key: [a, {b}] # $(X) \"quoted\" \\ ' \u00df\u65e5\U0001f600";
  for (char byte = 1; byte < 0x7F; ++byte) text += byte;
  text += "\x7f\u0080\u0085\u00a0\u2028\u2029\ufeff\ufffd\uffff";
  const auto quoted = yaml_quotable(text);
  EXPECT_EQ(YAML::Load('"' + quoted + '"').as<std::string>(), text);
  for (const char* folded : {"\u0080", "\u0085", "\u2028", "\u2029", "\ufeff", "\uffff"})  // by YAML 1.1
    EXPECT_EQ(quoted.find(folded), quoted.npos);
}

}  // namespace
}  // namespace ddprun
