// qkv qk claims from outside.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "tests/cli/program.h"

namespace qkv {
namespace {

TEST(QkClaims, PrintsVerdictsAndWritesAPage) {
  const TemporaryFolder folder;
  const std::string page = (folder / "claims.html").string();
  const CommandOutput said = Qkv("qk claims --only c3,C7,C3 --quick --json --report " + page);
  EXPECT_EQ(said.exit_code, 0) << said.err;
  const auto lines = JsonLines(said.out);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["id"], "C3");
  EXPECT_EQ(lines[0]["verdict"], "holds");
  EXPECT_EQ(lines[0]["agrees"], true);
  EXPECT_EQ(lines[1]["checks"][0]["measured"], 0);
  EXPECT_TRUE(Contains(ReadFile(page), "C7"));

  const CommandOutput text = Qkv("qk claims --only C10 -m " + Golden("timm_vit") + " " + Digits() + "/3-white.png");
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_TRUE(Contains(text.out, "does not hold")) << text.out;
}

TEST(QkClaims, SummariseOnOneScreen) {
  const CommandOutput said = Qkv("qk claims --quick --only C3,C6,C7,C11");
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_LT(std::ranges::count(said.out, '\n'), 12) << said.out;
  EXPECT_TRUE(Contains(said.out, "4 of 4 claims gave here what the verdict says")) << said.out;
  const CommandOutput verbose = Qkv("qk claims --quick --verbose --only C6,C11");
  EXPECT_TRUE(Contains(verbose.out, "2 of 2 claims")) << verbose.out;
  EXPECT_TRUE(Contains(verbose.out, "both solve it, at 100 %")) << verbose.out;
  // No table of C6 is printed again under C11.
  std::map<std::string, int> tables;
  std::istringstream lines(verbose.out);
  std::string table;
  for (std::string line; std::getline(lines, line);) {
    if (Contains(line, ": differences to ")) table = line;
    const std::string words = line.substr(std::min(line.find_first_not_of(' '), line.size()));
    if (words.starts_with("shared ") && !table.empty()) {
      EXPECT_EQ(++tables[table], 1) << table;
    }
  }
  EXPECT_GT(tables.size(), 1u);
}

TEST(QkClaims, AnUnreadableImageIsLeftOut) {
  const TemporaryFolder folder;
  WriteFile(folder / "bad.png", "no image");
  const std::string bad = (folder / "bad.png").string();
  const CommandOutput said = Qkv("qk claims --only C10 --json " + bad + " " + Digits() + "/3-white.png");
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_TRUE(Contains(said.err, "bad.png")) << said.err;
  EXPECT_EQ(JsonLines(said.out).size(), 1u);
  const CommandOutput none = Qkv("qk claims --only C10 " + bad);
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_TRUE(Contains(none.err, "none of 1 images could be read")) << none.err;
}

TEST(QkClaims, TellsOfTrainings) {
  const TemporaryFolder folder;
  std::string runs;
  for (int seed = 0; seed < 3; ++seed) {
    for (const auto& [arm, top1] : {std::pair{"separate", 0.5}, {"shared", 0.4}}) {
      runs += fmt::format(
          R"({}{{"data": "leaves", "arm": "{}", "seed": {}, "top1": {}, "loss": 1, "train_top1": 1, "steps": 9,
             "parameters": 9, "flops": 9, "symmetry": null, "effective_rank": 1, "rank99": 1}})",
          runs.empty() ? "" : ",", arm, seed, top1 + 0.01 * seed);
    }
  }
  WriteFile(
      folder / "results.json",
      R"({"title": "Leaves", "facts": [], "arms": ["separate", "shared"], "planned": 6, "runs": [)" + runs + "]}");
  const CommandOutput said = Qkv("qk claims --only C6,C11 --json --ablation " + (folder / "results.json").string());
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const auto lines = JsonLines(said.out);
  EXPECT_EQ(lines[0]["verdict"], "holds under conditions");
  EXPECT_TRUE(Contains(lines[0]["reason"], "-10.00 ± 0.00 points: worse")) << lines[0]["reason"];
  EXPECT_EQ(lines[1]["verdict"], "not measured");
}

TEST(QkClaims, HeadsMayBeAllAlike) {
  const TemporaryFolder folder;
  WriteChanged("timm_vit", folder.path(), [](const std::string& name, Tensor<float>& tensor) {
    if (Contains(name, ".attn.qkv.")) std::fill_n(tensor.data(), tensor.size(), 0);
  });
  const CommandOutput said =
      Qkv("qk claims --only C17 --quick --json -m " + folder.path().string() + " " + Digits() + "/3-white.png");
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_TRUE(Contains(said.out, "total variation between heads, mean")) << said.out;
  const std::vector<io::Json> claims = JsonLines(said.out);
  for (const io::Json& check : claims[0]["checks"]) {
    if (Contains(check["what"], "total variation")) {
      EXPECT_EQ(check["measured"], 0) << check;
    }
  }
}

TEST(QkClaims, RefusesWhatItDoesNotKnow) {
  const TemporaryFolder folder;
  for (const auto& [arguments, named] :
       {std::pair<std::string, std::string>{"--only C23", "C23"},
        {"--only C6 --ablation /nonexistent.json", "/nonexistent.json"},
        {"--only C6 --ablation " + Golden("timm_vit") + "/config.json", "config.json"},
        {"--only C1 -m /nonexistent", "/nonexistent"},
        {"--only C20 --translator " + Golden("text/bert"), "reads no encoder"},
        {"--only C20 --translator " + Golden("text/marian_trained"), "test.tsv"},
        {"--only C1 /nonexistent.png", "/nonexistent.png"},
        {"--only C3 --report " + (folder.path() / "none" / "x.html").string(), "x.html"}}) {
    const CommandOutput said = Qkv("qk claims " + arguments);
    EXPECT_EQ(said.exit_code, 1) << arguments;
    EXPECT_TRUE(Contains(said.err, named)) << said.err;
  }
}

}  // namespace
}  // namespace qkv
