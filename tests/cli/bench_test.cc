// qkv bench: what it reports, and what it refuses. Never how fast it is.
#include <gtest/gtest.h>

#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/cli/program.h"

namespace qkv {
namespace {

TEST(Bench, ReportsEveryPrecisionWithItsDrift) {
  const CommandOutput said = Qkv("bench --seconds 0 --json");
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const std::vector<io::Json> lines = JsonLines(said.out);
  ASSERT_EQ(lines.size(), 3u);
  const char* dtypes[] = {"fp32", "bf16", "int8"};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(lines[i].at("dtype"), dtypes[i]);
    EXPECT_GT(lines[i].at("best_ms").get<double>(), 0);
    EXPECT_GT(lines[i].at("peak_bytes").get<int64_t>(), 1 << 20);
    EXPECT_GT(lines[i].at("logit_cosine").get<double>(), 0.999);
  }
  EXPECT_EQ(lines[0].at("logit_cosine").get<double>(), 1);
  EXPECT_LT(lines[2].at("logit_cosine").get<double>(), 1) << "int8 computed in float";
  EXPECT_LT(lines[1].at("weight_bytes").get<int64_t>(), lines[0].at("weight_bytes").get<int64_t>());
  EXPECT_LT(lines[2].at("weight_bytes").get<int64_t>(), lines[1].at("weight_bytes").get<int64_t>());
}

TEST(Bench, MeasuresTheDriftOfOnePrecisionOnImages) {
  const CommandOutput said = Qkv("bench --seconds 0 --json --dtype int8 " + Digits());
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const std::vector<io::Json> lines = JsonLines(said.out);
  ASSERT_EQ(lines.size(), 2u);  // fp32 stands beside it
  EXPECT_EQ(lines[1].at("dtype"), "int8");
  EXPECT_EQ(lines[1].at("drift_images"), 20);
  EXPECT_EQ(lines[1].at("top1_agreement"), 1);
}

TEST(Bench, ImagesThatCannotBeReadAreAFailure) {
  const TemporaryFolder folder;
  WriteFile(folder / "broken.png", "no image");
  const std::string broken = (folder / "broken.png").string();
  const CommandOutput none = Qkv("bench --seconds 0 --json " + broken);
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_TRUE(Contains(none.err, "no image could be read")) << none.err;
  EXPECT_EQ(none.out, "");
  const CommandOutput some = Qkv("bench --seconds 0 --json " + broken + " " + Digits() + "/3-black.png");
  EXPECT_EQ(some.exit_code, 1);
  EXPECT_EQ(JsonLines(some.out).at(0).at("drift_images"), 1);
}

// A pipe can be read only once.
TEST(Bench, MeasuresTheDriftOnStdin) {
  const CommandOutput said = Qkv("bench --seconds 0 --json -", "cat " + Digits() + "/3-black.png |");
  ASSERT_EQ(said.exit_code, 0) << said.err;
  for (const io::Json& line : JsonLines(said.out)) EXPECT_GT(line.at("logit_cosine").get<double>(), 0.999);
}

TEST(Bench, PrintsATableForPeople) {
  const CommandOutput said = Qkv("bench --seconds 0");
  ASSERT_EQ(said.exit_code, 0) << said.err;
  for (const char* word : {"fp32", "bf16", "int8", "cosine"}) EXPECT_TRUE(Contains(said.out, word)) << word;
}

TEST(Bench, SaysWhichPrecisionIsNotFasterHere) {
  const CommandOutput said = Qkv("bench --seconds 0");
  ASSERT_EQ(said.exit_code, 0) << said.err;
  for (const std::string precision : {"bf16", "int8"}) {
    const std::regex faster(precision + R"( is ([0-9.]+) times as fast as fp32 here)");
    const std::regex slower(precision + R"( is not faster here \(([0-9.]+) of fp32's speed\))");
    std::smatch is_faster, is_slower;
    ASSERT_NE(std::regex_search(said.out, is_faster, faster), std::regex_search(said.out, is_slower, slower))
        << said.out;
    if (!is_faster.empty()) {
      EXPECT_GE(std::stod(is_faster[1]), 1.03);
    } else {
      EXPECT_LE(std::stod(is_slower[1]), 1.03);
    }
  }
}

TEST(Bench, LayersAndAttentionAlone) {
  const CommandOutput layers = Qkv("bench --layer --seconds 0 --json"),
                      attention = Qkv("bench --attention --seconds 0 --json");
  ASSERT_EQ(layers.exit_code, 0) << layers.err;
  ASSERT_EQ(attention.exit_code, 0) << attention.err;
  EXPECT_EQ(JsonLines(layers.out).size(), 4u * 3u);     // q, k and v; projection; MLP up; MLP down
  EXPECT_GE(JsonLines(attention.out).size(), 3u * 2u);  // and bf16 where the processor multiplies it
  EXPECT_EQ(JsonLines(Qkv("bench --layer --size 56 --seconds 0 --json").out).at(0).at("rows"), 1 + 14 * 14);
}

TEST(Bench, EverySavingCanBeSwitchedOff) {
  for (const char* list : {"all", "fold-norms", "fold-scales,fold-biases", "read-rows,merge,absorb"}) {
    EXPECT_EQ(Qkv(std::string("bench --seconds 0 --dtype fp32 --without ") + list).exit_code, 0) << list;
  }
  const CommandOutput said = Qkv("bench --seconds 0 --without speed");
  EXPECT_EQ(said.exit_code, 2);
  EXPECT_TRUE(Contains(said.err, "fold-norms")) << said.err;
}

TEST(Bench, StdinAnswersLineByLine) {
  const CommandOutput said = Qkv("bench --dtype int8 --stdin", "printf '\\n\\n\\n' |");
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(JsonLines(said.out).size(), 3u);
}

TEST(Bench, StepsOfTraining) {
  const CommandOutput steps = Qkv("bench --train 32,2,2,4,16,6 --stdin", "printf '\\n\\n\\n' |");
  ASSERT_EQ(steps.exit_code, 0) << steps.err;
  std::istringstream lines(steps.out);
  int count = 0;
  for (double milliseconds; lines >> milliseconds; ++count) EXPECT_GT(milliseconds, 0);
  EXPECT_EQ(count, 3);

  for (const char* dtype : {"fp32", "bf16"}) {
    const CommandOutput said = Qkv(std::string("bench --train 32,2,2,4,16,6 --seconds 0 --json --dtype ") + dtype);
    ASSERT_EQ(said.exit_code, 0) << said.err;
    const io::Json line = JsonLines(said.out).at(0);
    EXPECT_EQ(line.at("dtype"), dtype);
    EXPECT_EQ(line.at("parameters"), 3 * 16 * 32 + 32 + 32 + 17 * 32 + 2 * (12 * 32 * 32 + 13 * 32) + 64 + 330);
    EXPECT_GT(line.at("images_per_second").get<double>(), 0);
  }
  EXPECT_TRUE(Contains(Qkv("bench --train 32,2,2,4,16,6 --seconds 0").out, "of AdamW"));
}

TEST(Bench, TrainingRefusesShapesThatAreNone) {
  const std::pair<const char*, const char*> cases[] = {
      {"32,2,2,4,16", "six numbers"},   {"32,2,2,4,16,6,1", "six numbers"}, {"32,2,2,4,16,x", "six numbers"},
      {"32,2,0,4,16,6", "six numbers"}, {"32,2,3,4,16,6", "3 heads"},       {"32,2,2,5,16,6", "patches of 5"}};
  for (const auto& [shape, reason] : cases) {
    const CommandOutput said = Qkv(std::string("bench --train ") + shape);
    EXPECT_EQ(said.exit_code, 2) << shape;
    EXPECT_TRUE(Contains(said.err, reason)) << said.err;
  }
  EXPECT_EQ(Qkv("bench --train 32,2,2,4,16,6 --batch 3").exit_code, 2);
  EXPECT_TRUE(Contains(Qkv("bench --train 32,2,2,4,16,6 --dtype int8").err, "not in int8"));
}

std::string TextGolden(const std::string& name) { return Golden("text/" + name); }

TEST(BenchOfTexts, AnEncoderEmbedsInEveryPrecision) {
  const CommandOutput said = Qkv("bench --seconds 0 --json --batch 3 --tokens 4,6 -m " + TextGolden("bert"));
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const std::vector<io::Json> lines = JsonLines(said.out);
  ASSERT_EQ(lines.size(), 6u);  // precisions by numbers of tokens
  const char* dtypes[] = {"fp32", "bf16", "int8"};
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(lines[i].at("dtype"), dtypes[i / 2]);
    EXPECT_EQ(lines[i].at("work"), "embed");
    EXPECT_EQ(lines[i].at("batch"), 3);
    EXPECT_EQ(lines[i].at("tokens"), i % 2 == 0 ? 4 : 6);
    const double texts = lines[i].at("texts_per_second"), tokens = lines[i].at("tokens_per_second");
    EXPECT_NEAR(tokens / texts, lines[i].at("tokens").get<double>(), 1e-9);
    EXPECT_GT(lines[i].at("vector_cosine").get<double>(), 0.99);
  }
  EXPECT_NEAR(lines[0].at("vector_cosine").get<double>(), 1, 1e-9);
  EXPECT_LT(lines[4].at("vector_cosine").get<double>(), 1) << "int8 computed in float";
}

TEST(BenchOfTexts, ADecoderPrefillsAndDecodes) {
  const CommandOutput said = Qkv("bench --seconds 0 --json --tokens 5 --dtype int8 -m " + TextGolden("gpt2"));
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const std::vector<io::Json> lines = JsonLines(said.out);
  ASSERT_EQ(lines.size(), 6u);
  const char* works[] = {"prefill", "decode", "decode-batch"};
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(lines[i].at("work"), works[i % 3]);
    EXPECT_EQ(lines[i].contains("of_memory"), i % 3 > 0);
    EXPECT_TRUE(lines[i].contains("top1_agreement"));
  }
  EXPECT_EQ(lines[0].at("tokens"), 5);
  EXPECT_EQ(lines[2].at("batch"), 8);
  EXPECT_GT(lines[1].at("of_memory").get<double>(), 0);
}

TEST(BenchOfTexts, APairWritesGreedilyAndByBeams) {
  const CommandOutput said =
      Qkv("bench --seconds 0 --json --tokens 4 --batch 2 --dtype fp32 -m " + TextGolden("marian_trained"));
  ASSERT_EQ(said.exit_code, 0) << said.err;
  const std::vector<io::Json> lines = JsonLines(said.out);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].at("work"), "greedy");
  EXPECT_EQ(lines[0].at("batch"), 1);
  EXPECT_EQ(lines[1].at("work"), "beams");
  EXPECT_EQ(lines[1].at("batch"), 2);
}

TEST(BenchOfTexts, TextsOfAFileAreEmbeddedAndWritten) {
  const TemporaryFolder folder;
  WriteFile(folder / "texts.txt", "the house is green\nshort\na longer text of some more words\n");
  const std::string texts = " " + (folder / "texts.txt").string();
  const CommandOutput embedded = Qkv("bench --seconds 0 --json --dtype fp32 -m " + Golden("tasks/bert") + texts);
  ASSERT_EQ(embedded.exit_code, 0) << embedded.err;
  const io::Json line = JsonLines(embedded.out).at(0);
  EXPECT_EQ(line.at("batch"), 3);
  EXPECT_EQ(line.at("tokens"), 0) << "they differ";
  EXPECT_EQ(line.at("drift_texts"), 3);
  EXPECT_EQ(line.at("drift_random"), false);
  const CommandOutput written = Qkv("bench --seconds 0 --dtype bf16 -m " + Golden("tasks/marian") + texts);
  ASSERT_EQ(written.exit_code, 0) << written.err;
  for (const char* word : {"greedy", "beams", "mixed", "top-1"}) EXPECT_TRUE(Contains(written.out, word)) << word;
}

TEST(BenchOfTexts, StdinMeasuresOneKindOfWork) {
  const std::string gpt2 = " -m " + TextGolden("gpt2");
  const CommandOutput said = Qkv("bench --work decode --stdin" + gpt2, "printf '\n\n' |");
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_EQ(JsonLines(said.out).size(), 2u);
  const CommandOutput many = Qkv("bench --stdin" + gpt2, "printf '\n' |");
  EXPECT_EQ(many.exit_code, 1);
  EXPECT_TRUE(Contains(many.err, "--work")) << many.err;
}

TEST(BenchOfTexts, RefusesWhatTheModelLacks) {
  const std::pair<std::string, const char*> cases[] = {{"--work greedy -m " + TextGolden("gpt2"), "a decoder prefills"},
                                                       {"--work prefill -m " + TextGolden("bert"), "an encoder embeds"},
                                                       {"--tokens 100000 -m " + TextGolden("bert"), "the model takes"},
                                                       {"--tokens 4,5 -m " + TextGolden("gpt2"), "for encoders only"},
                                                       {"--layer -m " + TextGolden("gpt2"), "image models"},
                                                       {"--size 32 -m " + TextGolden("bert"), "image models"},
                                                       {"--tokens 4", "text models"}};
  for (const auto& [arguments, reason] : cases) {
    const CommandOutput said = Qkv("bench --seconds 0 " + arguments);
    EXPECT_EQ(said.exit_code, 1) << arguments;
    EXPECT_TRUE(Contains(said.err, reason)) << said.err;
  }
  EXPECT_EQ(Qkv("bench --tokens 4,x").exit_code, 2);
  EXPECT_EQ(Qkv("bench --tokens 0").exit_code, 2);
  EXPECT_EQ(Qkv("bench --stdin " + Digits(), "printf '' |").exit_code, 1);
}

}  // namespace
}  // namespace qkv
