#include "qkv/report/page.h"

#include <gtest/gtest.h>

#include "qkv/core/error.h"
#include "qkv/report/base64.h"
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

TEST(Page, ShowsAGallery) {
  Page page("t");
  page.Gallery({{.webp = "RIFF", .caption = "0.9 <b>", .detail = "a&b.jpg", .tip = "folder/\"a\"", .marked = true},
                {.caption = "gone"}});
  const std::string html = page.Html();
  EXPECT_TRUE(IsXml(html));
  EXPECT_NE(html.find("src=\"data:image/webp;base64,UklGRg==\""), std::string::npos);
  EXPECT_NE(html.find("0.9 &lt;b&gt;"), std::string::npos);
  EXPECT_NE(html.find("a&amp;b.jpg"), std::string::npos);
  EXPECT_NE(html.find("title=\"folder/&quot;a&quot;\""), std::string::npos);
  EXPECT_EQ(Count(html, "class=\"marked\""), 1);
  EXPECT_EQ(Count(html, "no picture"), 1);
}

TEST(Page, SaysWhichVersionWroteIt) {
  EXPECT_FALSE(Version().empty());
  EXPECT_NE(Page("t").Html().find("<footer>qkv " + std::string(Version()) + "</footer>"), std::string::npos);
}

TEST(Base64, IsThatOfTheRfc) {
  const auto encoded = [](std::string_view text) { return Base64(std::as_bytes(std::span(text))); };
  const char* const kPairs[][2] = {{"", ""},
                                   {"f", "Zg=="},
                                   {"fo", "Zm8="},
                                   {"foo", "Zm9v"},
                                   {"foob", "Zm9vYg=="},
                                   {"fooba", "Zm9vYmE="},
                                   {"foobar", "Zm9vYmFy"}};
  for (const auto& [text, expected] : kPairs) EXPECT_EQ(encoded(text), expected);
  EXPECT_EQ(encoded("\xff\xef\xfe"), "/+/+");
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
