// SPDX-License-Identifier: MIT
// `ddprun docs [WORD]`: the pages of the documentation, as they are installed with the program.
#include "base/log.h"
#include "base/program.h"
#include "base/terminal.h"
#include "command_line/documentation.h"
#include "command_line/plain_commands.h"
#include "launch/worker_process.h"

#include <ddprun/error.h>
#include <ddprun/options.h>

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

namespace ddprun {
namespace {

constexpr size_t kMostWhole = 8;  // sections that are shown whole

// The user's own, or less, if that is there; empty where it would only be in the way.
std::string pager() {
  if (::isatty(STDOUT_FILENO) == 0) return "";
  if (const char* own = std::getenv("PAGER")) return own;
  return has_program("less") ? "less -FR" : "";
}

// Ends well even if the reader leaves the pager before the end.
void show(const std::string& text) {
  const auto program = pager();
  auto* pipe = program.empty() ? nullptr : ::popen(program.c_str(), "w");
  if (!pipe) {
    std::cout << text;
    return;
  }
  const auto before = std::signal(SIGPIPE, SIG_IGN);
  std::fwrite(text.data(), 1, text.size(), pipe);
  if (::pclose(pipe) >> 8 == 127) std::cout << text;  // the shell has not found it
  std::signal(SIGPIPE, before);
}

std::string list_of(const std::vector<Page>& pages) {
  size_t width = 0;
  for (const auto& page : pages) width = std::max(width, page.name.size());
  std::string text;
  for (const auto& page : pages)
    text += padded(page.name, width + 2) + wrapped(page.sections.front().title, width + 2, width + 2) + "\n";
  return text + "\n" +
         paragraph("ddprun docs NAME shows a page, and ddprun docs WORD the sections that have the word.", 0) +
         paragraph("They lie in " + pages.front().file.parent_path().string() + ".", 0);
}

std::string place_of(const Page& page, const Section& section) { return page.name + ": " + section.title; }

// Few are shown whole; of many, where they are.
std::string text_of(const std::vector<FoundSection>& found, const std::string& word) {
  std::string text;
  if (found.size() > kMostWhole) {
    text = log::text(found.size(), " sections have \"", word, "\":\n\n");
    for (const auto& [page, section] : found) text += "  " + place_of(*page, *section) + "\n";
    return text + "\nddprun docs with a heading, or a longer phrase, shows the text.\n";
  }
  for (const auto& [page, section] : found)
    text += (text.empty() ? "" : "\n") + ("[" + place_of(*page, *section) + "]\n\n") + section->text;
  return text;
}

[[noreturn]] void refuse(const std::vector<Page>& pages, const std::string& word) {
  std::vector<std::string> names;
  for (const auto& page : pages) names.push_back(page.name);
  const auto near = nearest_name(word, names);
  std::string known;
  for (const auto& name : names) known += (known.empty() ? "" : ", ") + name;
  throw UserError("no page is called \"" + word + "\", and none has these words" +
                  (near.empty() ? "" : "; did you mean " + near + "?") + "; pages: " + known);
}

}  // namespace

int show_docs(const Arguments& arguments) {
  const auto pages = read_pages(documentation_folder());
  std::string word;
  for (const auto& part : arguments.runs) word += (word.empty() ? "" : " ") + part;
  if (word.empty()) {
    std::cout << list_of(pages);
    return kExitDone;
  }
  if (const auto* page = find_page(pages, word)) {
    show(page->text());
    return kExitDone;
  }
  const auto found = find_sections(pages, word);
  if (found.empty()) refuse(pages, word);
  show(text_of(found, word));
  return kExitDone;
}

}  // namespace ddprun
