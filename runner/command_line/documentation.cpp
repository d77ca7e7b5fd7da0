// SPDX-License-Identifier: MIT
#include "command_line/documentation.h"

#include "base/program.h"
#include "base/run_files.h"

#include <ddprun/error.h>

#include <algorithm>
#include <cctype>
#include <sstream>
#include <string_view>
#include <system_error>

namespace ddprun {
namespace {

namespace fs = std::filesystem;

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char byte) { return std::tolower(byte); });
  return text;
}

// Returns the heading that the line is; empty if it is none.
std::string heading(const std::string& line) {
  const auto marks = line.find_first_not_of('#');
  return marks == 0 || marks == line.npos || line[marks] != ' ' ? "" : line.substr(marks + 1);
}

// Comments of a shell in a block of code are no headings.
std::vector<Section> sections_of(const std::string& text) {
  std::vector<Section> sections;
  std::istringstream lines(text);
  bool in_code = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) in_code = !in_code;
    const auto title = in_code ? "" : heading(line);
    if (!title.empty() || sections.empty()) sections.push_back({.title = title});
    sections.back().text += line + "\n";
  }
  return sections;
}

Page read_page(const fs::path& file) {
  return {.name = lower(file.stem().string()), .file = file, .sections = sections_of(content_of(file))};
}

// Returns the end of a link to the heading, as GitHub writes it: "several-gpus-in-one-process".
std::string anchor_of(const std::string& title) {
  std::string anchor;
  for (const unsigned char byte : lower(title)) {
    if (byte == ' ') anchor += '-';
    if (std::isalnum(byte) != 0 || byte == '-' || byte == '_' || byte >= 0x80) anchor += static_cast<char>(byte);
  }
  return anchor;
}

}  // namespace

std::string Page::text() const {
  std::string text;
  for (const auto& section : sections) text += section.text;
  return text;
}

fs::path documentation_folder() {
  const auto folder = own_program().parent_path().parent_path() / "share/doc/ddprun";
  const auto docs = folder / "docs";
  std::error_code error;
  if (fs::is_directory(docs, error)) return folder;
  throw UserError(docs.string() + " is missing: the pages were not installed with this program; install it again");
}

std::vector<Page> read_pages(const fs::path& folder) {
  std::vector<fs::path> files{folder / "README.md"};
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder / "docs", error)) files.push_back(entry.path());
  for (const auto& entry : fs::recursive_directory_iterator(folder / "runner", error)) files.push_back(entry.path());
  std::erase_if(files, [](const fs::path& file) { return file.extension() != ".md"; });
  std::ranges::sort(files.begin() + 1, files.end());
  std::vector<Page> pages;
  for (const auto& file : files) pages.push_back(read_page(file));
  std::erase_if(pages, [](const Page& page) { return page.sections.empty(); });
  if (pages.empty()) throw UserError(folder.string() + " has no pages; install ddprun again");
  return pages;
}

const Page* find_page(const std::vector<Page>& pages, const std::string& name) {
  auto wanted = lower(name);
  while (wanted.starts_with("../")) wanted.erase(0, 3);
  const auto found = std::ranges::find_if(pages, [&](const Page& page) {
    return page.name == wanted || lower(page.file.string()).ends_with("/" + wanted);
  });
  return found == pages.end() ? nullptr : &*found;
}

std::vector<FoundSection> find_sections(const std::vector<Page>& pages, const std::string& words) {
  const auto wanted = lower(words);
  const auto hash = words.find('#');
  const auto* linked = hash == words.npos ? nullptr : find_page(pages, words.substr(0, hash));
  std::vector<FoundSection> in_heading, in_text;
  for (const auto& page : pages) {
    for (const auto& section : page.sections) {
      if (linked == &page && anchor_of(section.title) == wanted.substr(hash + 1)) return {{&page, &section}};
      const auto has = [&](const std::string& text) { return lower(text).find(wanted) != std::string::npos; };
      if (has(section.title)) {
        in_heading.emplace_back(&page, &section);
      } else if (has(section.text)) {
        in_text.emplace_back(&page, &section);
      }
    }
  }
  in_heading.insert(in_heading.end(), in_text.begin(), in_text.end());
  return in_heading;
}

}  // namespace ddprun
