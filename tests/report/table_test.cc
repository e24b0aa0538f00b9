#include "qkv/report/table.h"

#include <gtest/gtest.h>

#include "qkv/core/error.h"
#include "tests/report/xml.h"

namespace qkv::report {
namespace {

Table Small() {
  return {"Orders & times",
          {{"order", Align::kLeft}, {"time"}, {"note", Align::kLeft}},
          {{"separate", "50.1 µs", "as the text did"}, {"merged, beforehand", "7.3 µs", "a|b <\"x\">"}}};
}

TEST(Table, Markdown) {
  EXPECT_EQ(ToMarkdown(Small()),
            "**Orders &amp; times**\n"
            "\n"
            "| order | time | note |\n"
            "|---|---:|---|\n"
            "| separate | 50.1 µs | as the text did |\n"
            "| merged, beforehand | 7.3 µs | a\\|b &lt;\"x\"> |\n");
}

TEST(Table, Csv) {
  EXPECT_EQ(ToCsv(Small()),
            "order,time,note\n"
            "separate,50.1 µs,as the text did\n"
            "\"merged, beforehand\",7.3 µs,\"a|b <\"\"x\"\">\"\n");
}

TEST(Table, Text) {
  EXPECT_EQ(ToText(Small()),
            "Orders & times\n"
            "order                  time  note\n"
            "separate            50.1 µs  as the text did\n"
            "merged, beforehand   7.3 µs  a|b <\"x\">\n");
}

TEST(Table, Html) {
  const std::string html = ToHtml(Small());
  EXPECT_TRUE(IsXml(html));
  EXPECT_NE(html.find("<caption>Orders &amp; times</caption>"), std::string::npos);
  EXPECT_NE(html.find("<th scope=\"col\" class=\"number\">time</th>"), std::string::npos);
  EXPECT_NE(html.find("<td>a|b &lt;&quot;x&quot;&gt;</td>"), std::string::npos);
}

TEST(Table, WithoutRowsIsItsHead) {
  const Table table = {"", {{"a"}, {"b"}}, {}};
  EXPECT_EQ(ToText(table), "a  b\n");
  EXPECT_EQ(ToCsv(table), "a,b\n");
  EXPECT_TRUE(IsXml(ToHtml(table)));
}

TEST(Table, RefusesRaggedRows) {
  Table table = Small();
  table.rows[1].pop_back();
  for (const auto write : {ToMarkdown, ToCsv, ToText, ToHtml}) EXPECT_THROW(write(table), Error);
  EXPECT_THROW(ToText({}), Error);
}

}  // namespace
}  // namespace qkv::report
