// SPDX-License-Identifier: MIT
#include "progress_bar.h"

#include "terminal_text.h"

#include <algorithm>
#include <cstdio>

namespace ddprun::console {
namespace {

constexpr int kWidestBar = 30, kNarrowestBar = 5;
constexpr const char* kEraseLine = "\r\033[2K";

}  // namespace

std::string bar_text(const std::string& label, int64_t done, int64_t total, const std::string& detail, int width) {
  const double share = total > 0 ? std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0) : 0;
  auto percent = std::to_string(static_cast<int>(share * 100));
  percent.insert(0, 3 - std::min<size_t>(3, percent.size()), ' ');
  const auto head = label + " " + percent + "% ";
  const auto tail = " " + std::to_string(done) + "/" + std::to_string(total) + (detail.empty() ? "" : "  " + detail);
  const int room = width - 1 - static_cast<int>(head.size() + tail.size()) - 2;
  const int cells = std::clamp(room, kNarrowestBar, kWidestBar);
  const int filled = static_cast<int>(share * cells);
  auto text = head + "[" + std::string(filled, '#') + std::string(cells - filled, '-') + "]" + tail;
  if (static_cast<int>(text.size()) > width - 1) text.resize(std::max(0, width - 1));
  return text;
}

void ProgressBar::draw(const std::string& label, int64_t done, int64_t total, const std::string& detail) {
  std::printf("%s%s", kEraseLine, bar_text(label, done, total, detail, terminal_width()).c_str());
  std::fflush(stdout);
  shown_ = true;
}

void ProgressBar::clear() {
  if (shown_) std::printf("%s", kEraseLine);
  shown_ = false;
}

}  // namespace ddprun::console
