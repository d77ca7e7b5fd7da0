// SPDX-License-Identifier: MIT
#include "plugin_host/plugin_build.h"

#include <gmock/gmock.h>

namespace ddprun {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(CompilerMessage, KeepsErrorsTheirLinesOfSourceAndWhatLeadsToThem) {
  const std::string macro =
      "my_net.cpp:9:14: error: expected identifier before string constant\n"
      "    9 | DDPRUN_MODLE(MyNet, \"my_net\", \"mine\")\n"
      "      |              ^~~~~~~~\n";
  for (const auto& [output, kept] : std::vector<std::pair<std::string, std::string>>{
           {"In file included from my_net.cpp:3:\n"
            "/usr/include/vector: In function 'f':\n"
            "my_net.cpp:9:10: error: 'x' was not declared\n"
            "    9 |   return x;\n"
            "      |          ^\n"
            "my_net.cpp:2:6: note: declared here\n"
            "    2 | void f();\n",
            "my_net.cpp:9:10: error: 'x' was not declared\n"
            "    9 |   return x;\n"
            "      |          ^"},
           {"/usr/bin/ld: /tmp/a.o: in function `f':\n"
            "my_net.cpp:(.text+0x1): undefined reference to `g()'\n"
            "collect2: error: ld returned 1 exit status\n",
            "my_net.cpp:(.text+0x1): undefined reference to `g()'"},
           {"my_net.cpp:5:1:   required from here\n"
            "plugin.h:8:2: warning: unused variable\n"
            "plugin.h: In instantiation of 'void f<T>()':\n"
            "my_net.cpp:7:1:   required from here\n"
            "plugin.h:9:3: error: static assertion failed\n"
            "    9 |   static_assert(false);\n"
            "my_net.cpp:8:1:   required from here\n"
            "plugin.h:9:4: note: which is false\n",
            "my_net.cpp:7:1:   required from here\n"
            "plugin.h:9:3: error: static assertion failed\n"
            "    9 |   static_assert(false);"},
           {macro, macro + "did you mean DDPRUN_MODEL?"},
           {"virtual memory exhausted\n", "virtual memory exhausted\n"},  // where nothing looks like an error
           {"ld: notes.txt: syntax error\ncollect2: error: ld returned 1\n",
            "ld: notes.txt: syntax error\ncollect2: error: ld returned 1\n"}})
    EXPECT_EQ(errors_of_compiler(output), kept);
  for (const std::string line : {"DDPRUN_MODEL(MyNet, 3, 4)", "class DDPRUN_API MyNet", "#if DDPRUN_VERSION_MAJOR"})
    EXPECT_THAT(errors_of_compiler("a.cpp:9:1: error: e\n    9 | " + line + "\n"), Not(HasSubstr("did you mean")));
}

TEST(CompilerMessage, SaysFiveErrorsOnce) {
  std::string output;
  for (const int line : {1, 1, 2, 3, 4, 5, 6}) output += "a.cpp:" + std::to_string(line) + ":1: error: e\n";
  const auto text = errors_of_compiler(output);
  EXPECT_EQ(std::ranges::count(text, '\n'), 4);
  EXPECT_THAT(text, HasSubstr("a.cpp:5:1"));
  EXPECT_THAT(text, Not(HasSubstr("a.cpp:6:1")));
}

}  // namespace
}  // namespace ddprun
