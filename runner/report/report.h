// SPDX-License-Identifier: MIT
// Writes report.html: one file that shows one run or compares several, in any browser and without a network.
#pragma once

#include "report/page.h"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

// Writes <run_dir>/report.html, whole or not at all, at the end of a run. Throws UserError if it cannot be written, or
// if a file of that name is not a report (a link never is), or if a file of the run is refused, as a link would be
// (files_below.h); other flaws in the run's own files are shown in the page.
void write_report(const std::filesystem::path& run_dir);

// Does the same for one run or several, into any file.
void write_report(const std::vector<std::filesystem::path>& run_dirs, const std::filesystem::path& out);

// Checks the target of another page: throws UserError if a file of another kind is there, or no folder for it.
void require_page(const PageKind& kind, const std::filesystem::path& out);

// Writes what `ddprun data`, `ddprun predict` or `ddprun replay` has found; `out` is checked as above. A sheet is
// {"name", "about", "tiles": [[name, value, note]], "text": [...], "notice": {"title", "lines"}, "run": what it is
// of, "sections"}, and a section {"id", "title", "text": [...]} with one of "table" ({"head": ["class", "train"],
// "rows": [["cat", "1,200"]]}; "bars": true draws the counts), "groups" and "samples" (data_pictures.h) and "predicted"
// (tables.h). Empty texts are left out; numbers in tiles, tables and losses are shown in four digits.
void write_page(const PageKind& kind, const std::string& title, nlohmann::ordered_json sheet,
                const std::filesystem::path& out);

// Collects everything that the page shows of one run.

// Returns an object for page/*.js. Whatever is missing in the folder is missing here; broken parts are listed under
// "problems". A curve has at most `most_points` points.
nlohmann::ordered_json recorded_run(const std::filesystem::path& run_dir, size_t most_points);

}  // namespace ddprun
