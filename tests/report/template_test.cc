#include "qkv/report/template.h"

#include <gtest/gtest.h>

#include "qkv/core/error.h"
#include "qkv/report/web_files.h"

namespace qkv::report {
namespace {

TEST(Template, ReplacesPlaceholdersOnceAndInAnyOrder) {
  EXPECT_EQ(FillTemplate("a{{X}}b{{Y}}c{{X}}", {{"Y", "2"}, {"X", "1"}}), "a1b2c1");
  EXPECT_EQ(FillTemplate("", {}), "");
  EXPECT_EQ(FillTemplate("{ x } }} {y}", {}), "{ x } }} {y}");
}

TEST(Template, DoesNotSearchValues) {
  EXPECT_EQ(FillTemplate("{{A}}{{B}}", {{"A", "{{B}}{{"}, {"B", "b"}}), "{{B}}{{b");
}

TEST(Template, RefusesWhatDoesNotMatch) {
  EXPECT_THROW(FillTemplate("{{X}}", {}), Error);
  EXPECT_THROW(FillTemplate("{{X", {{"X", "1"}}), Error);
  EXPECT_THROW(FillTemplate("", {{"X", "1"}}), Error);
}

TEST(Template, FilesEndWithOneLineEnd) {
  for (const std::string_view file : {PageHtml(), PageCss(), ChartCss()}) {
    ASSERT_TRUE(file.ends_with('\n'));
    EXPECT_EQ(WithoutLastLineEnd(file).size(), file.size() - 1);
    EXPECT_EQ(WithoutLastLineEnd(WithoutLastLineEnd(file)), WithoutLastLineEnd(file));
  }
}

}  // namespace
}  // namespace qkv::report
