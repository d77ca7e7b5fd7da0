// SPDX-License-Identifier: MIT
#include "terminal_text.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

namespace ddprun::console {
namespace {

template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[64];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

// True for accuracy and top5, which are shown in percent.
bool is_share(const std::string& metric) {
  const auto name = metric.substr(metric.find('/') + 1);  // without the split, if there is one
  const bool top = name.starts_with("top") && name.size() > 3 && name.find_first_not_of("0123456789", 3) == name.npos;
  return top || name.ends_with("accuracy");
}

// Returns the part of the name between the split and the next slash; empty if there is none.
std::string metric_of(const std::string& name, const std::string& split) {
  if (!name.starts_with(split)) return "";
  const auto slash = name.find('/', split.size());
  return slash == name.npos ? "" : name.substr(split.size(), slash - split.size());
}

}  // namespace

std::string grouped(int64_t number) {
  auto text = std::to_string(number);
  for (auto at = static_cast<int64_t>(text.size()) - 3; at > (number < 0 ? 1 : 0); at -= 3) text.insert(at, ",");
  return text;
}

std::string counted(int64_t number, const std::string& what) {
  return grouped(number) + " " + what + (number == 1 ? "" : "s");
}

std::string world_text(int64_t workers, int64_t nodes) {
  if (workers % nodes == 0) return std::to_string(nodes) + " x " + std::to_string(workers / nodes);
  return counted(workers, "worker") + " on " + counted(nodes, "node");
}

std::string epochs_text(double epochs) {
  constexpr double kWhole = 100;  // from here on parts of an epoch are not shown
  const auto number = epochs < kWhole ? format("%.3g", epochs) : grouped(std::llround(epochs));
  return number + (epochs == 1 ? " epoch" : " epochs");
}

std::string duration(double seconds) {
  const auto whole = static_cast<long>(std::lround(seconds));
  if (seconds < 0.095) return format("%.0f ms", 1e3 * seconds);
  if (seconds < 60) return format("%.1f s", seconds);
  if (whole < 3600) return format("%ld min %02ld s", whole / 60, whole % 60);
  return format("%ld h %02ld min", whole / 3600, whole / 60 % 60);
}

std::string part_time(double seconds) { return seconds < 60 ? duration(std::max(seconds, 0.0)) : clock(seconds); }

std::string clock(double seconds) {
  const auto whole = static_cast<long>(std::lround(std::max(seconds, 0.0)));
  if (whole < 3600) return format("%ld:%02ld", whole / 60, whole % 60);
  return format("%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string metric(const std::string& name, double value) { return name + " " + metric_value(name, value); }

std::string metric_value(const std::string& name, double value) {
  if (is_share(name)) return format("%.2f %%", value * 100);
  return format(value != 0 && std::abs(value) < 1e-3 ? "%.3e" : "%.4g", value);
}

std::string memory(double bytes) {
  return bytes < 1e9 ? format("%.0f MB", bytes / 1e6) : format("%.1f GB", bytes / 1e9);
}

std::string operations(double a_second) {
  constexpr std::array kUnits{"", "k", "M", "G", "T", "P", "E"};
  size_t unit = 0;
  for (; a_second >= 1000 && unit + 1 < kUnits.size(); ++unit) a_second /= 1000;
  return format(a_second >= 100 ? "%.0f %sFLOP/s" : "%.3g %sFLOP/s", a_second, kUnits[unit]);
}

std::string share_text(double share) { return format("%.3g %%", 100 * share); }

int terminal_width() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  constexpr int kUsual = 80, kEndless = 10'000;
  return isatty(STDOUT_FILENO) ? kUsual : kEndless;
}

bool is_live_terminal() {
  const char* term = std::getenv("TERM");
  return isatty(STDOUT_FILENO) && term && std::strcmp(term, "dumb") != 0;
}

size_t shown_width(const std::string& text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }));
}

bool leave_out_classes(Values& values, const std::string& split) {
  constexpr size_t kMostInALine = 3;
  std::map<std::string, size_t> sizes;
  for (const auto& [name, value] : values) ++sizes[metric_of(name, split)];
  sizes[""] = 0;
  const auto is_of_class = [&](const auto& value) { return sizes[metric_of(value.first, split)] > kMostInALine; };
  return std::erase_if(values, is_of_class) > 0;
}

std::vector<std::string> broken_lines(const std::string& text, size_t width) {
  std::vector<std::string> lines(1);
  for (size_t at = 0; at < text.size();) {
    auto end = std::min(text.size(), std::min({text.find(", ", at), text.find("; ", at), text.find("  ", at)}));
    end = std::min(text.size(), text.find_first_not_of(' ', end + (end < text.size() && text[end] != ' ' ? 1 : 0)));
    const auto item = text.substr(at, end - at);
    const auto shown = item.find_last_not_of(' ') + 1;
    if (!lines.back().empty() && shown_width(lines.back()) + shown_width(item.substr(0, shown)) > width) {
      lines.back().erase(lines.back().find_last_not_of(' ') + 1);
      lines.emplace_back();
    }
    lines.back() += item;
    at = end;
  }
  return lines;
}

std::string path_text(const std::filesystem::path& path) {
  std::error_code error;
  const auto here = std::filesystem::current_path(error);
  const auto near = error ? path : path.lexically_relative(here);
  const bool below = is_live_terminal() && !near.empty() && *near.begin() != "..";
  return (below ? near : path).string();
}

std::string painted(const std::string& text, Colour colour) {
  const char* refused = std::getenv("NO_COLOR");
  if ((refused && *refused) || !is_live_terminal()) return text;
  const char* code = colour == Colour::kGood ? "32" : colour == Colour::kBad ? "31" : "1";
  return "\033[" + std::string(code) + "m" + text + "\033[0m";
}

}  // namespace ddprun::console
