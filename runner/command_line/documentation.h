// SPDX-License-Identifier: MIT
// README.md and the pages of docs/ and runner/features/, in the clone that built this program or installed with it.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace ddprun {

struct Section {
  std::string title;  // its heading, without the marks
  std::string text;   // with the heading, up to the next one
};

struct Page {
  std::string name;  // "training" for docs/training.md, "record" for runner/features/record/record.md; "readme"
  std::filesystem::path file;
  std::vector<Section> sections;  // at least one, whose title is the page's

  std::string text() const;
};

// Throws UserError if there are no pages with this program.
std::filesystem::path documentation_folder();

// Reads README.md, those of docs/ by their names, and so those of features. Throws UserError if there are none.
std::vector<Page> read_pages(const std::filesystem::path& folder);

// Returns the page that is called so: "training", "training.md", "docs/training.md", or as a page links to it:
// "../runner/features/record/record.md"; null if none is.
const Page* find_page(const std::vector<Page>& pages, const std::string& name);

using FoundSection = std::pair<const Page*, const Section*>;

// Returns the sections that have the words, in any case, first those whose headings do. A link's words are one section:
// "docs/training.md#fine-tuning".
std::vector<FoundSection> find_sections(const std::vector<Page>& pages, const std::string& words);

}  // namespace ddprun
