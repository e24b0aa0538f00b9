// What a few results say together, and the file that keeps them.
#include "qkv/lab/ablation_results.h"

#include <gtest/gtest.h>

#include <cmath>

#include "qkv/core/error.h"
#include "qkv/io/json.h"
#include "tests/support/errors.h"

namespace qkv::lab {
namespace {

const RunResult kRun = {.data = "photos",
                        .arm = "low_rank:rank=4",
                        .seed = 3,
                        .top1 = 0.625,
                        .loss = 1.5,
                        .train_top1 = 0.75,
                        .steps = 120,
                        .parameters = 12345,
                        .flops = 1e7,
                        .symmetry = NAN,
                        .effective_rank = 4.5,
                        .rank99 = 6};

AblationResults SomeResults() {
  AblationResults results{.title = "Kinds of attention on \"photos\"",
                          .facts = {{"Equal", "steps"}, {"Machine", "2 threads"}},
                          .arms = {"a", "none", "b"},
                          .unit = "sequences",
                          .planned = 9,
                          .runs = {},
                          .speeds = {{"a", {.training = 100, .inference = 300}}}};
  for (const auto& [arm, seed, top1] : {std::tuple<const char*, int64_t, double>{"b", 1, 0.62},
                                        {"a", 0, 0.5},
                                        {"a", 1, 0.6},
                                        {"b", 0, 0.54},
                                        {"b", 2, 0.9}}) {
    results.runs.push_back({.data = "photos", .arm = arm, .seed = seed, .top1 = top1});
  }
  results.runs.push_back({.data = "letters", .arm = "b", .seed = 0, .top1 = 0.25});
  return results;
}

TEST(RunResult, IsReadAsItWasWritten) {
  const RunResult read = RunResult::FromJson(kRun.ToJson(), "here");
  EXPECT_EQ(read.ToJson(), kRun.ToJson());
  EXPECT_EQ(read.arm, kRun.arm);
  EXPECT_EQ(read.seed, 3);
  EXPECT_EQ(read.top1, 0.625);
  EXPECT_EQ(read.parameters, 12345);
  EXPECT_TRUE(std::isnan(read.symmetry));
  for (const char* wrong : {"{}", "[", "[]", "null"}) EXPECT_THROW(RunResult::FromJson(wrong, "here"), Error) << wrong;
}

TEST(RunResult, HoldsEveryNumberToWhatItCanBe) {
  for (const auto& [key, value] : {std::pair<const char*, const char*>{"seed", "-1"},
                                   {"seed", "1.5"},
                                   {"steps", "1e300"},
                                   {"steps", "\"1\""},
                                   {"parameters", "-5"},
                                   {"top1", "1.5"},
                                   {"top1", "-1"},
                                   {"train_top1", "true"},
                                   {"flops", "-1"},
                                   {"symmetry", "2"},
                                   {"rank99", "-1"},
                                   {"data", "7"},
                                   {"arm", "null"}}) {
    io::Json json = io::Json::parse(kRun.ToJson());
    json[key] = io::Json::parse(value);
    const std::string said = ErrorMessage([&] { RunResult::FromJson(json.dump(), "here"); });
    EXPECT_TRUE(said.starts_with("here: not the result of a run: ")) << key << " " << value << ": " << said;
  }
}

TEST(RunResult, OfPairsHasBleu) {
  RunResult run = kRun;
  EXPECT_FALSE(io::Json::parse(run.ToJson()).contains("bleu"));
  run.bleu = 12.5;
  EXPECT_EQ(RunResult::FromJson(run.ToJson(), "here").bleu, 12.5);
  for (const char* wrong : {"101", "-1", "\"x\"", "[]"}) {
    io::Json json = io::Json::parse(run.ToJson());
    json["bleu"] = io::Json::parse(wrong);
    EXPECT_THROW(RunResult::FromJson(json.dump(), "here"), Error) << wrong;
  }
}

TEST(Summarise, PairsBleuToo) {
  AblationResults results{.title = "t",
                          .facts = {},
                          .arms = {"a", "b"},
                          .unit = "pairs",
                          .varied = "cross-attention",
                          .planned = 4,
                          .runs = {},
                          .speeds = {}};
  for (const auto& [arm, seed, bleu] :
       {std::tuple<const char*, int64_t, double>{"a", 0, 20}, {"a", 1, 22}, {"b", 0, 19}, {"b", 1, 20}}) {
    results.runs.push_back({.data = "d", .arm = arm, .seed = seed, .top1 = 0.5, .bleu = bleu});
  }
  const AblationResults read = AblationResults::FromJson(results.ToJson(), "here");
  EXPECT_EQ(read.varied, "cross-attention");
  EXPECT_EQ(read.ToJson(), results.ToJson());
  const std::vector<ArmSummary> arms = Summarise(read, "d");
  EXPECT_DOUBLE_EQ(arms[0].bleu.mean, 21);
  EXPECT_TRUE(std::isnan(arms[0].bleu_difference.mean));
  EXPECT_DOUBLE_EQ(arms[1].bleu_difference.mean, -1.5);
  EXPECT_TRUE(std::isnan(Summarise(SomeResults(), "photos")[0].bleu.mean)) << "photos have none";
}

TEST(AblationResults, AreReadAsTheyWereWritten) {
  const AblationResults results = SomeResults();
  const AblationResults read = AblationResults::FromJson(results.ToJson(), "here");
  EXPECT_EQ(read.ToJson(), results.ToJson());
  EXPECT_EQ(read.title, results.title);
  EXPECT_EQ(read.facts, results.facts);
  EXPECT_EQ(read.arms, results.arms);
  EXPECT_EQ(read.unit, "sequences");
  EXPECT_EQ(read.planned, 9);
  EXPECT_EQ(read.runs.size(), 6u);
  EXPECT_EQ(read.speeds.at("a").inference, 300);
  EXPECT_EQ(read.Data(), (std::vector<std::string>{"photos", "letters"}));
  for (const char* wrong : {"{}", "[", "[]", R"({"title": 3})"}) {
    EXPECT_THROW(AblationResults::FromJson(wrong, "here"), Error) << wrong;
  }
}

TEST(Summarise, PairsSeedsWithTheFirstArm) {
  const AblationResults results = SomeResults();
  const std::vector<ArmSummary> summaries = Summarise(results, "photos");
  ASSERT_EQ(summaries.size(), 2u);
  EXPECT_DOUBLE_EQ(summaries[0].top1.mean, 0.55);
  EXPECT_TRUE(std::isnan(summaries[0].difference.mean));
  EXPECT_EQ(summaries[1].runs[2]->seed, 2);
  EXPECT_NEAR(summaries[1].difference.mean, 0.03, 1e-12);  // 0.04 and 0.02; seed 2 has nothing to be paired with
  EXPECT_NEAR(summaries[1].difference.half, 12.706204736 * 0.01, 1e-9);

  const std::vector<ArmSummary> other = Summarise(results, "letters");
  ASSERT_EQ(other.size(), 1u);
  EXPECT_EQ(other[0].top1.mean, 0.25);
  EXPECT_TRUE(std::isnan(other[0].difference.mean)) << "the first arm has no run there";
  EXPECT_TRUE(Summarise(results, "nothing").empty());
}

TEST(Difference, IsOfAnyTwoArms) {
  const AblationResults results = SomeResults();
  EXPECT_NEAR(Difference(results, "photos", "a", "b").mean, -0.03, 1e-12);
  EXPECT_TRUE(std::isnan(Difference(results, "photos", "a", "none").mean));
}

}  // namespace
}  // namespace qkv::lab
