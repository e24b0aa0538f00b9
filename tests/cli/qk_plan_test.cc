// qkv qk plan: what it counts, chooses and refuses. Never how fast it is.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/cli/program.h"

namespace qkv {
namespace {

io::Json PlanOf(const std::string& arguments) {
  const Said said = Qkv("qk plan --json " + arguments);
  EXPECT_EQ(said.exit_code, 0) << said.err;
  const std::vector<io::Json> lines = JsonLines(said.out);
  return lines.size() == 1 ? lines[0] : io::Json();
}

TEST(QkPlan, CountsTheThreadsExample) {
  const io::Json plan = PlanOf("--tokens 2000 --width 3000 --head-width 4000 --read scores --dtype fp64");
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
  const Said said = Qkv("qk plan --tokens 197 --width 768 --heads 12 --read scores");
  EXPECT_EQ(said.exit_code, 0) << said.err;
  EXPECT_TRUE(Contains(said.out, "Merging does not pay")) << said.out;
  EXPECT_TRUE(Contains(said.out, "6.68 times as many")) << said.out;
  EXPECT_TRUE(Contains(said.out, "Absorbing pays below 51.5 rows; 197 are read.")) << said.out;
  EXPECT_TRUE(
      Contains(PlanOf("--width 64 --tokens 9 --queries 1 --cached keys").at("merging"), "Nothing can be merged"));
}

TEST(QkPlan, MeasuresEveryOrder) {
  const io::Json plan = PlanOf("--tokens 20 --width 32 --heads 2 --batch 3 --measure --seconds 0");
  for (const io::Json& order : plan.at("orders")) EXPECT_GT(order.at("measured_ms").get<double>(), 0);
  EXPECT_EQ(PlanOf("--tokens 20 --queries 1 --width 32 --cached latent --latent 8").at("orders").size(), 5u);
}

TEST(QkPlan, RunsOneOrderForEachLine) {
  const Said said = Qkv("qk plan --width 32 --tokens 8 --stdin", "printf 'merged\\nprojected\\n' |");
  EXPECT_EQ(said.exit_code, 0) << said.err;
  double first = 0, second = 0;
  EXPECT_EQ(std::sscanf(said.out.c_str(), "%lf\n%lf", &first, &second), 2) << said.out;
  EXPECT_EQ(Qkv("qk plan --width 32 --stdin", "echo none |").exit_code, 1);
}

// The model inside the program reads the class token alone in its last block.
TEST(QkPlan, PlansEachBlockOfAModel) {
  const Said said = Qkv("qk plan --json");
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const std::vector<io::Json> blocks = JsonLines(said.out);
  ASSERT_EQ(blocks.size(), 2u) << said.out;
  EXPECT_EQ(blocks[0].at("scores"), "projected");
  EXPECT_EQ(blocks[0].at("saved"), 0);
  EXPECT_EQ(blocks[1].at("rows"), 1);
  EXPECT_EQ(blocks[1].at("scores"), "absorbed");
  EXPECT_GT(blocks[1].at("saved"), 0.5);
  EXPECT_TRUE(Contains(Qkv("qk plan").out, "Merging does not pay"));
}

TEST(QkPlan, DrawsTheMap) {
  const TemporaryFolder folder;
  const std::string path = (folder / "map.svg").string();
  const Said said = Qkv("qk plan --width 100 --tokens 50 --map " + path);
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const std::string svg = ReadFile(path);
  for (const char* name : {"ViT-Ti", "ViT-S", "ViT-B", "ViT-L", "MLA", "2000×3000→4000", "these shapes", "</svg>"}) {
    EXPECT_TRUE(Contains(svg, name)) << name;
  }
}

TEST(QkPlan, RefusesWhatDoesNotFit) {
  for (const char* wrong : {"--tokens 5", "--width 0", "--width 8 --cached some", "--width 8 --grid",
                            "--width 8 --dtype bf16", "--grid --map x.svg"}) {
    EXPECT_EQ(Qkv(std::string("qk plan ") + wrong).exit_code, 2) << wrong;
  }
  EXPECT_EQ(Qkv("qk plan --width 8 --cached latent").exit_code, 1);
  EXPECT_EQ(Qkv("qk plan --width 8 --tokens 3 --queries 5 --cached keys").exit_code, 1);
}

}  // namespace
}  // namespace qkv
