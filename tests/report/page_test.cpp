// SPDX-License-Identifier: MIT
#include "report/page.h"

#include <gtest/gtest.h>

namespace ddprun {
namespace {

using OrderedJson = nlohmann::ordered_json;

size_t count(const std::string& text, std::string_view part) {
  size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

// What the page's own script finds in the element that holds the data.
OrderedJson data_of(const std::string& page) {
  constexpr std::string_view kOpen = "<script type=\"application/json\" id=\"data\">";
  const auto begin = page.find(kOpen) + kOpen.size();
  return OrderedJson::parse(page.substr(begin, page.find("</script", begin) - begin));
}

TEST(Page, GivesBackTheDataWhateverItsTextsHold) {
  const OrderedJson data{{"a", "</script><script>alert(1)</script>"},
                         {"b", "<!-- <script>"},
                         {"c", "\"quotes\" & 'such' \\ \n"},
                         {"<key>", "größer, 猫, \xE2\x80\xA8"},
                         {"d", "{{program}} {{title}}"}};
  const auto page = render_page("title", data);
  EXPECT_EQ(data_of(page), data);
  EXPECT_EQ(count(page, "</script"), 3U) << "of the library, the data and the program";
}

TEST(Page, OfBytesThatAreNoTextIsOneAllTheSame) { EXPECT_NO_THROW(data_of(render_page("title", {{"a", "\xff\xfe"}}))); }

TEST(Page, HasNoTitleThatEndsItsElement) {
  const auto page = render_page("</title><b>", OrderedJson::object());
  EXPECT_NE(page.find("<title>&lt;/title&gt;&lt;b&gt; | ddprun</title>"), std::string::npos);
}

TEST(Page, LoadsNothing) {
  auto page = render_page("title", OrderedJson::object());
  for (const char* part :
       {"<link rel=\"stylesheet", "src=\"http", "href=\"http", "@import", "url(http", "sourceMappingURL"})
    EXPECT_EQ(page.find(part), std::string::npos) << part;
  EXPECT_NE(page.find("default-src 'none'"), std::string::npos) << "and the browser is asked to allow nothing";
}

TEST(Page, LeavesNoSlotOpen) {
  const auto page = render_page("title", OrderedJson::object());
  for (const char* slot : {"{{mark}}", "{{policy}}", "{{style}}", "{{library}}", "{{data}}", "{{program}}"})
    EXPECT_EQ(page.find(slot), std::string::npos) << slot;
  EXPECT_NE(page.substr(0, 2048).find(kReportPage.mark()), std::string::npos);
}

TEST(Page, HoldsTheLibraryWithItsLicence) {
  const auto page = render_page("title", OrderedJson::object());
  EXPECT_NE(page.find("@license"), std::string::npos);
  EXPECT_NE(page.find("Permission is hereby granted"), std::string::npos);
}

TEST(EscapeHtml, LeavesNothingThatHtmlReads) {
  EXPECT_EQ(escape_html("<a b=\"c\">&'"), "&lt;a b=&quot;c&quot;&gt;&amp;&#39;");
}

TEST(Base64, PadsWhatIsNoWholeGroup) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64("\xff\xfe\xfd"), "//79");
}

}  // namespace
}  // namespace ddprun
