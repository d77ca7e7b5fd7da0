// SPDX-License-Identifier: MIT
// `ddprun docs [WORD]`: README.md and the pages of docs/ and runner/features/, in the clone that built this program or
// installed with it.
#include "base/on_demand.h"
#include "base/run_files.h"
#include "base/terminal.h"
#include "command_line/plain_commands.h"
#include "launch/worker_process.h"

#include <ddprun/error.h>

#include <algorithm>
#include <cctype>
#include <iostream>
#include <sstream>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

struct Page {
  std::string name;  // "training" for docs/training.md, "record" for runner/features/record/record.md; "readme"
  std::vector<std::string> sections;  // each begins with its heading; the first heading is the page's title
};

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char byte) { return std::tolower(byte); });
  return text;
}

std::string name_of(const fs::path& file) { return lower(file.stem().string()); }

std::string title_of(const std::string& section) {
  const auto line = section.substr(0, section.find('\n'));
  return line.substr(std::min(line.find_first_not_of("# "), line.size()));
}

// Comments of a shell in a block of code are no headings.
std::vector<std::string> sections_of(const std::string& text) {
  std::vector<std::string> sections;
  std::istringstream lines(text);
  bool in_code = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) in_code = !in_code;
    if (sections.empty() || (!in_code && line.starts_with('#'))) sections.emplace_back();
    sections.back() += line + "\n";
  }
  return sections;
}

// Reads README.md, those of docs/ by their names, and so those of features.
std::vector<Page> read_pages() {
  const auto folder = own_prefix() / "share/doc/ddprun";
  std::vector<fs::path> files{folder / "README.md"};
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder / "docs", error)) files.push_back(entry.path());
  for (const auto& entry : fs::recursive_directory_iterator(folder / "runner", error)) files.push_back(entry.path());
  std::erase_if(files, [](const fs::path& file) { return file.extension() != ".md"; });
  std::ranges::sort(files.begin() + 1, files.end());
  std::vector<Page> pages;
  for (const auto& file : files) {
    Page page{.name = name_of(file), .sections = sections_of(content_of(file))};
    if (!page.sections.empty()) pages.push_back(std::move(page));
  }
  if (pages.empty()) throw UserError(folder.string() + " has no pages; install ddprun again");
  return pages;
}

void list_pages(const std::vector<Page>& pages) {
  size_t width = 0;
  for (const auto& page : pages) width = std::max(width, page.name.size());
  for (const auto& page : pages)
    std::cout << padded(page.name, width + 2) << wrapped(title_of(page.sections.front()), width + 2, width + 2) << "\n";
  std::cout << "\n"
            << paragraph("ddprun docs NAME shows a page, and ddprun docs WORD the sections that have the word.", 0);
}

// Shows the sections that have the words, in any case; returns whether there are any.
bool show_sections(const std::vector<Page>& pages, const std::string& words) {
  bool found = false;
  for (const auto& page : pages) {
    for (const auto& section : page.sections) {
      if (lower(section).find(lower(words)) == std::string::npos) continue;
      std::cout << (found ? "\n" : "") << "[" << page.name << ": " << title_of(section) << "]\n\n" << section;
      found = true;
    }
  }
  return found;
}

}  // namespace

std::vector<std::string> documentation_pages() {
  std::vector<std::string> names;
  for (const auto& page : read_pages()) names.push_back(page.name);
  return names;
}

int show_docs(const Arguments& arguments) {
  const auto pages = read_pages();
  std::string words;
  for (const auto& word : arguments.runs) words += (words.empty() ? "" : " ") + word;
  const auto named = std::ranges::find(pages, name_of(words), &Page::name);  // docs/training.md, too
  if (words.empty()) {
    list_pages(pages);
  } else if (named != pages.end()) {
    for (const auto& section : named->sections) std::cout << section;
  } else if (!show_sections(pages, words)) {
    throw UserError("no page is called \"" + words + "\", and none has these words; `ddprun docs` lists the pages");
  }
  return kExitDone;
}

}  // namespace ddprun
