// SPDX-License-Identifier: MIT
#include "base/program.h"
#include "submit/submission.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

// Every byte but the zero, which no argument can hold.
std::string all_bytes() {
  std::string text;
  for (int byte = 1; byte < 256; ++byte) text += static_cast<char>(byte);
  return text;
}

TEST(Quote, AShellReadsBackWhateverItWas) {
  for (const auto& text : std::vector<std::string>{"", "a b", "it's $HOME `ls` \"x\" \\ \n#;*", all_bytes()})
    EXPECT_EQ(run_program({"sh", "-c", "printf %s " + shell_word(text)}).output, text);
}

TEST(Quote, LeavesPlainWordsAlone) { EXPECT_EQ(shell_words({"srun", "a.b=1,2", "c d", ""}), "srun a.b=1,2 'c d' ''"); }

TEST(Quote, MakesNamesForKubernetes) {
  EXPECT_EQ(kubernetes_name("MNIST_medium v2"), "mnist-medium-v2");
  EXPECT_EQ(kubernetes_name("2nd try"), "nd-try");
  EXPECT_EQ(kubernetes_name("..."), "ddprun");
  EXPECT_EQ(kubernetes_name(std::string(100, 'x')).size(), 40U);
}

}  // namespace
}  // namespace ddprun
