// SPDX-License-Identifier: MIT
#include "layout.h"

#include <array>

namespace ddprun::tensorboard {
namespace {

enum { kCategory = 2 };              // Layout
enum { kTitle = 1, kChart = 2 };     // Category
enum { kMultiline = 2, kTags = 1 };  // Chart, whose title is 1 too, and its MultilineChartContent

struct Chart {
  const char* category;
  const char* title;
  const char* tags;  // a regular expression
};

constexpr auto kCharts = std::to_array<Chart>({
    {"Results", "loss", "^(train|val|test)/loss$"},
    {"Results", "accuracy", "^(train|val|test)/accuracy$"},
    {"Results", "learning rate", "^train/lr$"},
    {"Speed", "samples per second", "^train/samples_per_second$"},
    {"Speed", "tokens per second", "^train/tokens_per_second$"},
    {"Speed", "model FLOP utilisation (MFU)", "^train/mfu$"},
    {"Speed", "phases of a step, seconds",
     "^system/(data|forward|backward|wait|optimizer|graph|logging|other)_seconds$"},
    {"Speed", "a step and the slowest rank's own work, seconds", "^system/(step|slowest_rank)_seconds$"},
});

}  // namespace

Message layout() {
  Message layout;
  for (size_t i = 0; i < kCharts.size();) {
    const std::string_view category = kCharts[i].category;
    Message content;
    content.bytes(kTitle, category);
    for (; i < kCharts.size() && category == kCharts[i].category; ++i) {
      content.message(
          kChart,
          Message().bytes(kTitle, kCharts[i].title).message(kMultiline, Message().bytes(kTags, kCharts[i].tags)));
    }
    layout.message(kCategory, content);
  }
  return layout;
}

}  // namespace ddprun::tensorboard
