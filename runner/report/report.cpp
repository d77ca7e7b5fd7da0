// SPDX-License-Identifier: MIT
#include "report/report.h"

#include "base/atomic_file.h"
#include "base/clock.h"
#include "report/page.h"
#include "report/recorded_run.h"

#include <ddprun/error.h>
#include <ddprun/version.h>

#include <algorithm>
#include <fstream>
#include <system_error>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostPoints = 3000;            // per curve
constexpr size_t kMostPointsTogether = 60'000;  // for all runs' curves of one metric

bool has_mark(const fs::path& file, std::string_view mark) {
  std::string head(2048, '\0');
  std::ifstream stream(file, std::ios::binary);
  stream.read(head.data(), static_cast<std::streamsize>(head.size()));
  return head.find(mark) != std::string::npos;
}

// `kind` is what the mark stands for.
void require_ours(const fs::path& out, std::string_view mark, const char* kind) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(out, error)) || (fs::is_regular_file(out, error) && has_mark(out, mark))) return;
  throw UserError(out.string() + " exists and is not a " + kind +
                  " of ddprun; it is not overwritten: choose another name with --out");
}

void write_page(const fs::path& out, const std::string& page, const char* kind) try {
  write_file_atomically(out, page);
} catch (const std::system_error& error) {
  throw UserError(std::string("the ") + kind + " cannot be written: " + error.what());
}

std::string title_of(const nlohmann::ordered_json& runs) {
  if (runs.size() > 1) return std::to_string(runs.size()) + " runs";
  return runs[0]["name"].get<std::string>() + " " + runs[0]["folder"].get<std::string>();
}

}  // namespace

void write_report(const fs::path& run_dir) { write_report({run_dir}, run_dir / "report.html"); }

void write_report(const std::vector<fs::path>& run_dirs, const fs::path& out) {
  require_ours(out, kReportMark, "report");
  const auto most_points = std::clamp<size_t>(kMostPointsTogether / run_dirs.size(), 300, kMostPoints);
  auto runs = nlohmann::ordered_json::array();
  for (const auto& run_dir : run_dirs) runs.push_back(recorded_run(run_dir, most_points));
  const auto title = title_of(runs);
  const auto page =
      render_page(title, {{"version", DDPRUN_VERSION}, {"written", wall_seconds()}, {"runs", std::move(runs)}});
  write_page(out, page, "report");
}

void require_data_page(const fs::path& out) {
  require_ours(out, kDataMark, "page of data");
  const auto folder = fs::absolute(out).parent_path();
  if (!fs::is_directory(folder)) throw UserError("--out " + out.string() + ": there is no folder " + folder.string());
}

void write_data_page(const std::string& title, nlohmann::ordered_json data, const fs::path& out) {
  require_data_page(out);
  const auto page = render_page(
      title, {{"version", DDPRUN_VERSION}, {"written", wall_seconds()}, {"data", std::move(data)}}, kDataMark);
  write_page(out, page, "page of data");
}

}  // namespace ddprun
