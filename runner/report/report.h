// SPDX-License-Identifier: MIT
// report.html: one file that shows a run, or several beside each other, in any browser and without a network.
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace ddprun {

// <run_dir>/report.html, whole or not at all. For the end of a run: UserError where it cannot be written, or where a
// file of that name is there that is no report; flaws in the run's own files are told in the page.
void write_report(const std::filesystem::path& run_dir);

// The same of one run or several, into any file.
void write_report(const std::vector<std::filesystem::path>& run_dirs, const std::filesystem::path& out);

// For a page of data: throws UserError where another file is there, or no folder for it.
void require_data_page(const std::filesystem::path& out);

// A page of what `ddprun data` has found, {"name": ...} as page/data.js shows it; `out` as above, but for pages of
// data.
void write_data_page(const std::string& title, nlohmann::ordered_json data, const std::filesystem::path& out);

}  // namespace ddprun
