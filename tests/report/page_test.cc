#include "qkv/report/page.h"

#include <gtest/gtest.h>

#include "qkv/core/error.h"
#include "qkv/report/charts.h"
#include "tests/report/xml.h"

namespace qkv::report {
namespace {

Page Full() {
  Page page("Queries & keys", "What `qk` does.");
  page.Section("First <section>", {Badge::Kind::kGood, "holds"});
  page.Prose("M = `W_Qᵀ W_K` & more <b>, and a lone ` mark");
  page.Add({"Times", {{"order", Align::kLeft}, {"time"}}, {{"merged", "1 s"}}});
  page.Section("Second");
  page.Heading("Part");
  page.Facts({{"machine", "<two cores>"}});
  page.Note("float64");
  page.Figure(Draw(LineChart{.heading = {"t"}, .series = {{.name = "a", .samples = {{0, 1}, {1, 2}}}}}), "A & B");
  return page;
}

TEST(Page, IsOneWellFormedFileThatNeedsNothingElse) {
  const std::string html = Full().Html();
  EXPECT_TRUE(IsXml(html));
  EXPECT_TRUE(html.starts_with("<!DOCTYPE html>\n"));
  EXPECT_EQ(Count(html, "<script"), 0);
  EXPECT_EQ(Count(html, "<link"), 0);
  EXPECT_EQ(Count(html, "src="), 0);
  EXPECT_EQ(Count(html, "url("), 0);
  EXPECT_EQ(Count(html, "@import"), 0);
  EXPECT_EQ(Count(html, "href=\"#"), Count(html, "href="));
  EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
}

TEST(Page, EscapesWordsAndSetsCode) {
  const std::string html = Full().Html();
  EXPECT_NE(html.find("<title>Queries &amp; keys</title>"), std::string::npos);
  EXPECT_NE(html.find("<p>M = <code>W_Qᵀ W_K</code> &amp; more &lt;b&gt;, and a lone ` mark</p>"), std::string::npos);
  EXPECT_NE(html.find("<dd>&lt;two cores&gt;</dd>"), std::string::npos);
  EXPECT_NE(html.find("<figcaption>A &amp; B</figcaption>"), std::string::npos);
}

TEST(Page, ListsItsSections) {
  const std::string html = Full().Html();
  EXPECT_NE(html.find("<li><a href=\"#s1\">First &lt;section&gt;</a> <span class=\"badge good\">holds</span></li>"),
            std::string::npos);
  EXPECT_EQ(Count(html, "<h2 id="), 2);
  Page one("t");
  one.Section("only");
  EXPECT_EQ(Count(one.Html(), "<nav"), 0);
  EXPECT_TRUE(IsXml(Page("").Html()));
}

}  // namespace
}  // namespace qkv::report
