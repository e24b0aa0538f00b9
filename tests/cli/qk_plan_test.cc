// qkv qk plan: what it counts, chooses and refuses. Never how fast it is.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/cli/program.h"

namespace qkv {
namespace {

io::Json RunPlan(const std::string& arguments) {
  const CommandOutput said = Qkv("qk plan --json " + arguments);
  EXPECT_EQ(said.exit_code, 0) << said.err;
  const std::vector<io::Json> lines = JsonLines(said.out);
  return lines.size() == 1 ? lines[0] : io::Json();
}

TEST(QkPlan, CountsTheThreadsExample) {
  const io::Json plan = RunPlan("--tokens 2000 --width 3000 --head-width 4000 --read scores --dtype fp64");
  EXPECT_EQ(plan.at("cheapest"), "merged");
  ASSERT_EQ(plan.at("orders").size(), 5u);
  const double expected[] = {64e9, 60e9, 30e9};
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(plan.at("orders")[i].at("multiply_adds"), expected[i]);
  EXPECT_EQ(plan.at("orders")[2].at("multiply_adds_beforehand"), 36e9);
  for (const io::Json& order : plan.at("orders")) {
    EXPECT_GT(order.at("predicted_ms").get<double>(), 0);
    EXPECT_FALSE(order.contains("measured_ms"));
  }
  EXPECT_TRUE(Contains(plan.at("merging"), "Merging pays: 30 G multiply-adds instead of 60 G (absorbed)"))
      << plan.at("merging");
}

TEST(QkPlan, SaysNoWithNumbers) {
  const CommandOutput said = Qkv("qk plan --tokens 197 --width 768 --heads 12 --read scores");
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_TRUE(Contains(said.out, "Merging does not pay")) << said.out;
  EXPECT_TRUE(Contains(said.out, "6.68 times as many")) << said.out;
  EXPECT_TRUE(Contains(said.out, "Absorbing pays below 51.5 rows; 197 are read.")) << said.out;
  EXPECT_TRUE(
      Contains(RunPlan("--width 64 --tokens 9 --queries 1 --cached keys").at("merging"), "Nothing can be merged"));
}

TEST(QkPlan, MeasuresEveryOrder) {
  const io::Json plan = RunPlan("--tokens 20 --width 32 --heads 2 --batch 3 --measure --seconds 0");
  for (const io::Json& order : plan.at("orders")) EXPECT_GT(order.at("measured_ms").get<double>(), 0);
  EXPECT_EQ(RunPlan("--tokens 20 --queries 1 --width 32 --cached latent --latent 8").at("orders").size(), 5u);
}

TEST(QkPlan, RunsOneOrderForEachLine) {
  const CommandOutput said = Qkv("qk plan --width 32 --tokens 8 --stdin", "printf 'merged\\nprojected\\n' |");
  EXPECT_EQ(said.exit_code, 0) << said.err;
  double first = 0, second = 0;
  EXPECT_EQ(std::sscanf(said.out.c_str(), "%lf\n%lf", &first, &second), 2) << said.out;
  EXPECT_EQ(Qkv("qk plan --width 32 --stdin", "echo none |").exit_code, 1);
}

// The model inside the program reads the class token alone in its last block.
TEST(QkPlan, PlansEachBlockOfAModel) {
  const CommandOutput said = Qkv("qk plan --json");
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const std::vector<io::Json> blocks = JsonLines(said.out);
  ASSERT_EQ(blocks.size(), 2u) << said.out;
  EXPECT_EQ(blocks[0].at("scores"), "projected");
  EXPECT_EQ(blocks[0].at("saved"), 0);
  EXPECT_EQ(blocks[1].at("rows"), 1);
  EXPECT_EQ(blocks[1].at("scores"), "absorbed");
  EXPECT_GT(blocks[1].at("saved"), 0.5);
  const std::string text = Qkv("qk plan").out;
  EXPECT_TRUE(Contains(text, "Merging does not pay"));
  EXPECT_TRUE(Contains(text, "saved\n0-2  ")) << text;  // a table, line by line
  EXPECT_FALSE(Contains(text, "\\x0a")) << text;
}

// D = 24, N = 10, H = 3, E = 8, two blocks. What is counted is what inference multiplies: queries of low rank are
// narrow, those that are keys are made once.
TEST(QkPlan, PlansOtherKindsOfAttention) {
  struct Expected {
    std::string golden;
    double all, last, last_projected;
    std::string merging;
  };
  const double outputs = 3 * (10 * 24 * 8 + 10 * 10 * 8 + 10 * 8 * 24), last_outputs = 3 * (10 * 24 + 8 * 24 + 8 * 24),
               last_projected = 3 * (10 * 24 * 8 + 10 * 8 + 8 * 24);
  for (const Expected& e :
       {Expected{"timm_kind_low_rank", 3 * (2 * 10 * 24 * 3 + 10 * 10 * 3) + outputs,
                 3 * (2 * 24 * 3 + 10 * 24) + last_outputs, 3 * (11 * 24 * 3 + 10 * 3) + last_projected,
                 "Merging does not pay"},
        {"timm_kind_shared", 3 * (10 * 24 * 8 + 10 * 10 * 8) + outputs, 3 * (2 * 24 * 8 + 10 * 24) + last_outputs,
         3 * (10 * 24 * 8 + 10 * 8) + last_projected, "shared is not"}}) {
    const CommandOutput said = Qkv("qk plan --json -m " + Golden(e.golden));
    ASSERT_EQ(said.exit_code, 0) << said.err;
    const std::vector<io::Json> blocks = JsonLines(said.out);
    ASSERT_EQ(blocks.size(), 2u) << said.out;
    EXPECT_EQ(blocks[0].at("multiply_adds"), e.all) << e.golden;
    EXPECT_EQ(blocks[0].at("projected_all_rows"), e.all) << e.golden;
    EXPECT_EQ(blocks[1].at("scores"), "absorbed") << e.golden;
    EXPECT_EQ(blocks[1].at("outputs"), "absorbed") << e.golden;
    EXPECT_EQ(blocks[1].at("multiply_adds"), e.last) << e.golden;
    EXPECT_EQ(blocks[1].at("projected"), e.last_projected) << e.golden;
    EXPECT_EQ(blocks[1].at("projected_all_rows"), e.all) << e.golden;
    EXPECT_DOUBLE_EQ(blocks[1].at("saved").get<double>(), 1 - e.last / e.all) << e.golden;
    EXPECT_TRUE(Contains(blocks[0].at("merging"), e.merging)) << blocks[0].at("merging");
  }
  const std::vector<io::Json> merged = JsonLines(Qkv("qk plan --json -m " + Golden("timm_kind_merged")).out);
  ASSERT_EQ(merged.size(), 2u);
  EXPECT_EQ(merged[0].at("scores"), "merged");
  EXPECT_EQ(merged[1].at("outputs"), "absorbed");
}

TEST(QkPlan, RefusesAttentionWithoutAChoice) {
  for (const auto& [golden, kind] : {std::pair{"timm_kind_gaussian", "gaussian"},
                                     {"timm_kind_positional", "positional"},
                                     {"timm_differential", "differential"}}) {
    const CommandOutput said = Qkv(std::string("qk plan -m ") + Golden(golden));
    EXPECT_EQ(said.exit_code, 1) << said.out;
    EXPECT_TRUE(Contains(said.err, kind)) << said.err;
  }
}

// Whether to merge was decided when the layers were built: at 100 times the tokens it still is.
TEST(QkPlan, FollowsInferenceToAnotherSize) {
  for (const char* size : {"", " --size 240"}) {
    const CommandOutput said = Qkv("qk plan --json -m " + Golden("timm_one_head_wide") + size);
    ASSERT_EQ(said.exit_code, 0) << said.err;
    EXPECT_EQ(JsonLines(said.out).at(0).at("scores"), "merged") << said.out;
    EXPECT_GT(JsonLines(said.out).at(0).at("saved"), 0) << said.out;
    EXPECT_TRUE(Contains(JsonLines(said.out).at(0).at("merging"), "Merging pays")) << said.out;
  }
}

TEST(QkPlan, DrawsTheMap) {
  const TemporaryFolder folder;
  const std::string path = (folder / "map.svg").string();
  const CommandOutput said = Qkv("qk plan --width 100 --tokens 50 --map " + path);
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const std::string svg = ReadFile(path);
  for (const char* name : {"ViT-Ti", "ViT-S", "ViT-B", "ViT-L", "MLA", "2000×3000→4000", "these shapes", "</svg>"}) {
    EXPECT_TRUE(Contains(svg, name)) << name;
  }
}

TEST(QkPlan, RefusesWhatDoesNotFit) {
  EXPECT_NE(Qkv("qk plan --width 768 --heads 7").err.find("do not divide into 7 heads"), std::string::npos);
  EXPECT_NE(Qkv("qk plan --width 8 --cached latent").err.find("--latent"), std::string::npos);
  EXPECT_EQ(Qkv("qk plan --map map.png").exit_code, 1);
  for (const char* wrong : {"--tokens 5", "--width 0", "--width 8 --cached some", "--width 8 --grid",
                            "--width 8 --dtype bf16", "--grid --map x.svg"}) {
    EXPECT_EQ(Qkv(std::string("qk plan ") + wrong).exit_code, 2) << wrong;
  }
  EXPECT_EQ(Qkv("qk plan --width 8 --cached latent").exit_code, 1);
  EXPECT_EQ(Qkv("qk plan --width 8 --tokens 3 --queries 5 --cached keys").exit_code, 1);
}

}  // namespace
}  // namespace qkv
