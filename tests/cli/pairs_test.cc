// qkv train and evaluate on pairs of texts as their users run them.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "qkv/core/rng.h"
#include "tests/cli/program.h"
#include "tests/cli/training.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;

class PairRuns : public testing::Test {
 protected:
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  // Words of a small language and their translations, in reverse order.
  void WritePairs(int lines, uint64_t seed, const std::string& name = "pairs.tsv") const {
    constexpr const char* kWords[][2] = {{"rot", "red"},    {"blau", "blue"}, {"Haus", "house"},  {"Baum", "tree"},
                                         {"Kind", "child"}, {"alt", "old"},   {"klein", "small"}, {"und", "and"}};
    Rng rng(seed);
    std::string text;
    for (int i = 0; i < lines; ++i) {
      std::string source, target;
      for (uint64_t words = 2 + rng.Next() % 4; words > 0; --words) {
        const auto& word = kWords[rng.Next() % 8];
        source += (source.empty() ? "" : " ") + std::string(word[0]);
        target = word[1] + (target.empty() ? "" : " " + target);
      }
      text += source + "\t" + target + "\n";
    }
    WriteFile(folder_ / name, text);
  }
  std::string OnPairs(const std::string& run, const std::string& more) const {
    return fmt::format(
        "train {} -o {} --vocabulary 340 --length 24 --width 32 --depth 1 --heads 2 --mlp-ratio 2 --threads 2 "
        "--valid-lines 20 {}",
        Path("pairs.tsv"), Path(run), more);
  }
  // Everything random is on.
  std::string Short(const std::string& run, const std::string& more = "") const {
    return OnPairs(run,
                   "--steps 24 --batch 240 --accumulate 2 --dropout 0.1 --attention-dropout 0.1 --ema 0.9 "
                   "--eval-steps 8 --save-steps 1 --log-steps 2 " +
                       more);
  }

  const TemporaryFolder folder_;
};

TEST_F(PairRuns, LearnToTranslate) {
  WritePairs(1500, 1);
  WritePairs(60, 2, "test.tsv");
  const CommandOutput said =
      Qkv(OnPairs("run", "--epochs 12 --batch 600 --lr 4e-3 --dropout 0 --width 64 --depth 2 --heads 4"));
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_TRUE(Contains(said.err, "pairs: 1350 lines to train on, 150 for validation")) << said.err;
  EXPECT_TRUE(Contains(said.err, " steps of 600 tokens of 1,350 pairs\n")) << said.err;
  EXPECT_TRUE(Contains(said.err, "BLEU")) << said.err;
  EXPECT_TRUE(Contains(said.err, "tokens/s")) << said.err;
  for (const char* file :
       {"model.safetensors", "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json",
        "best/tokenizer.json", "last/generation_config.json", "curves.svg"}) {
    EXPECT_TRUE(fs::exists(folder_ / "run" / file)) << file;
  }
  EXPECT_GT(ReadEvaluations(folder_ / "run").back()["bleu"], 80);

  const CommandOutput answer =
      Qkv(fmt::format("evaluate --json -m {} {} -o {}", Path("run"), Path("test.tsv"), Path("out")));
  ASSERT_EQ(answer.exit_code, 0) << answer.err;
  const io::Json json = JsonLines(answer.out).at(0);
  EXPECT_EQ(json["lines"], 60);
  EXPECT_EQ(json["beams"], 4);
  EXPECT_GT(json["bleu"], 80);
  EXPECT_GT(json["chrf"], 85);
  EXPECT_GT(json["rougeL"], 85);
  const std::string out = ReadFile(folder_ / "out");
  EXPECT_EQ(std::ranges::count(out, '\n'), 60);
  EXPECT_TRUE(
      Contains(Qkv(fmt::format("evaluate -m {} {} --beams 1 --stem", Path("run"), Path("test.tsv"))).out, "ROUGE-1"));
  const CommandOutput part = Qkv(fmt::format("evaluate --json -m {} {} --split val", Path("run"), Path("pairs.tsv")));
  ASSERT_EQ(part.exit_code, 0) << part.err;
  EXPECT_EQ(JsonLines(part.out).at(0)["lines"], 150);

  // A line that is too long is left out, and said.
  std::string longer = "rot";
  for (int i = 0; i < 40; ++i) longer += " blau";
  WriteFile(folder_ / "long.tsv", longer + "\tred\n" + ReadFile(folder_ / "test.tsv"));
  const CommandOutput some = Qkv(fmt::format("evaluate -m {} {} -o {}", Path("run"), Path("long.tsv"), Path("some")));
  ASSERT_EQ(some.exit_code, 0) << some.err;
  EXPECT_TRUE(Contains(some.out, "1 of the pairs are left out")) << some.out;
  EXPECT_EQ(ReadFile(folder_ / "some"), "\n" + out);

  // In another type it translates alike.
  const CommandOutput half = Qkv(fmt::format("convert -m {} -o {} --dtype bf16", Path("run"), Path("half")));
  ASSERT_EQ(half.exit_code, 0) << half.err;
  EXPECT_LT(fs::file_size(folder_ / "half/model.safetensors"), fs::file_size(folder_ / "run/model.safetensors") * 0.6);
  EXPECT_EQ(io::ParseJson(ReadFile(folder_ / "half/config.json"), "")["dtype"], "bfloat16");
  const CommandOutput of_half = Qkv(fmt::format("evaluate --json -m {} {}", Path("half"), Path("test.tsv")));
  ASSERT_EQ(of_half.exit_code, 0) << of_half.err;
  EXPECT_GT(JsonLines(of_half.out).at(0)["bleu"], 80);
  EXPECT_NE(Qkv(fmt::format("convert -m {} -o {} --layout timm", Path("run"), Path("timm"))).exit_code, 0);

  // What cross-attention carries here: the words are in reverse order, so neither their mean nor the diagonal says
  // which.
  const auto bleu = [&](const std::string& rule) {
    const CommandOutput replaced =
        Qkv(fmt::format("evaluate --json --beams 1 -m {} {} --cross-weights {}", Path("run"), Path("test.tsv"), rule));
    EXPECT_EQ(replaced.exit_code, 0) << replaced.err;
    const io::Json found = JsonLines(replaced.out).at(0);
    EXPECT_TRUE(Contains(found["cross"], "cross-attention: ")) << found;
    return found["bleu"].get<double>();
  };
  const double soft = json["bleu"];
  EXPECT_NEAR(bleu("softmax=0.999999"), soft, 5);
  EXPECT_GT(bleu("hard"), 0.5 * soft);
  EXPECT_LT(bleu("uniform"), 0.5 * soft);
  EXPECT_LT(bleu("gaussian=1"), 0.5 * soft);
  EXPECT_LE(bleu("uniform:0.1"), soft + 5);
  const std::string translate = fmt::format("translate -m {} \"rot alt Baum und Kind\"", Path("run"));
  EXPECT_NE(Qkv(translate).out, Qkv(translate + " --cross-weights uniform").out);
  const CommandOutput lines = Qkv(fmt::format("evaluate --json --lines 7 -m {} {}", Path("run"), Path("test.tsv")));
  EXPECT_EQ(JsonLines(lines.out).at(0)["lines"], 7) << lines.err;
  for (const auto& [command, named] :
       {std::pair<std::string, std::string>{"evaluate {} -m {} --cross-weights gaussian=0", "above 0"},
        {"evaluate {} -m {} --cross-weights uniform:0.4", "blocks 0 to 1 with heads 0 to 3"},
        {"evaluate {} -m {} --cross-weights soft", "no such rule"},
        {"translate {} -m {} --cross-weights hard:9.0", "no head 9.0"}}) {
    const CommandOutput refused = Qkv(fmt::format(fmt::runtime(command), Path("test.tsv"), Path("run")));
    EXPECT_NE(refused.exit_code, 0) << command;
    EXPECT_TRUE(Contains(refused.err, named)) << refused.err;
  }
  for (const auto& [data, named] : {std::pair<std::string, std::string>{"task:copy", "task:copy is no .tsv"},
                                    {Path("test.tsv"), "no cross-attention to change"}}) {
    const CommandOutput none = Qkv("evaluate --cross-weights hard " + data + " -m " + Golden("timm_vit"));
    EXPECT_NE(none.exit_code, 0);
    EXPECT_TRUE(Contains(none.err, named)) << none.err;
  }

  // The claims that a translator tells of.
  const CommandOutput claims = Qkv(fmt::format(
      "qk claims --only C20,C21,C22 --json --lines 20 --translator {} --pairs {}", Path("run"), Path("test.tsv")));
  ASSERT_EQ(claims.exit_code, 0) << claims.err;
  const std::vector<io::Json> told = JsonLines(claims.out);
  ASSERT_EQ(told.size(), 3u);
  for (const io::Json& claim : told) EXPECT_EQ(claim["agrees"], true) << claim;
  EXPECT_EQ(told[0]["tables"][0]["rows"].size(), 8u) << "two blocks of four heads";
  EXPECT_EQ(told[0]["verdict"], "holds");
  EXPECT_EQ(told[2]["verdict"], "holds");

  // And goes on from there with its own tokenizer, also with longer texts.
  EXPECT_EQ(Qkv(fmt::format("train {} -o {} -m {} --steps 1 --length 40 --valid {}", Path("pairs.tsv"), Path("wide"),
                            Path("run"), Path("test.tsv")))
                .exit_code,
            0);
  const CommandOutput again = Qkv(fmt::format("train {} -o {} -m {} --steps 2 --length 24 --valid {}",
                                              Path("pairs.tsv"), Path("more"), Path("run"), Path("test.tsv")));
  ASSERT_EQ(again.exit_code, 0) << again.err;
  EXPECT_GT(ReadEvaluations(folder_ / "more").back()["bleu"], 60);
  EXPECT_EQ(ReadFile(folder_ / "more/tokenizer.json"), ReadFile(folder_ / "run/tokenizer.json"));
}

TEST_F(PairRuns, KilledTheyComeToTheSameBits) {
  WritePairs(300, 1);
  ASSERT_EQ(Qkv(Short("whole")).exit_code, 0);
  Rng rng(5);
  int kills = 0;
  for (int tries = 0; tries < 100; ++tries) {
    const double seconds = kills < 6 ? rng.Uniform() * (0.08 + 0.008 * tries) : 600;
    const CommandOutput said = Qkv(Short("killed", "--resume"), fmt::format("timeout -s KILL {}", seconds));
    if (said.exit_code == 0) break;
    // timeout kills itself too, and may be gone before the process that it killed has left the folder.
    if (Contains(said.err, "another process is training")) continue;
    ASSERT_EQ(said.exit_code, 137) << said.err;
    ++kills;
  }
  EXPECT_GE(kills, 1);
  ExpectSameResult(folder_ / "whole", folder_ / "killed");
  EXPECT_EQ(ReadFile(folder_ / "whole/tokenizer.json"), ReadFile(folder_ / "killed/tokenizer.json"));
}

TEST_F(PairRuns, HaveKindsOfAttentionThatOnlyQkvRuns) {
  WritePairs(200, 1);
  const CommandOutput said =
      Qkv(Short("run", "--attention shared --cross-attention shared_kv --norm-place before --sched inverse-sqrt"));
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_TRUE(Contains(said.err, "transformers' Marian will not load it")) << said.err;
  const io::Json config = io::ParseJson(ReadFile(folder_ / "run/config.json"), "config.json");
  EXPECT_EQ(config["model_type"], "qkv_marian");
  EXPECT_EQ(config["qkv_attention"], "shared");
  EXPECT_EQ(config["qkv_cross_attention"], "shared_kv");
  const CommandOutput answer = Qkv(fmt::format("evaluate --json -m {} {}", Path("run"), Path("pairs.tsv")));
  EXPECT_EQ(answer.exit_code, 0) << answer.err;
}

TEST_F(PairRuns, RefuseWhatPairsDoNotHave) {
  WritePairs(20, 1);
  const auto refusal = [&](const std::string& more) {
    const CommandOutput said = Qkv(OnPairs("run", "--steps 1 " + more));
    EXPECT_NE(said.exit_code, 0) << more;
    EXPECT_FALSE(fs::exists(folder_ / "run")) << more;
    return said.err;
  };
  EXPECT_TRUE(Contains(refusal("--positions rotary"), "key positions"));
  EXPECT_TRUE(Contains(refusal("--image-size 32"), "is for images only"));
  EXPECT_TRUE(Contains(refusal("--attention low_rank"), "needs a rank"));
  EXPECT_TRUE(Contains(refusal("--tokenizer " + Path("nowhere")), "nowhere"));
  EXPECT_TRUE(Contains(refusal("--valid " + Path("nowhere.tsv")), "nowhere.tsv"));
  WriteFile(folder_ / "pairs.tsv", "a\tb\nc\n");
  EXPECT_TRUE(Contains(refusal(""), ":2: 0 tabs"));
}

#ifdef QKV_MPIRUN
TEST_F(PairRuns, OfTwoProcessesAreThoseOfOne) {
  WritePairs(300, 1);
  const std::string sgd = "--opt sgd --lr 1e-2 --dropout 0.1 --log-steps 2 --eval-steps 8 --threads 1 --steps 16 ";
  ASSERT_EQ(Qkv(OnPairs("one", sgd + "--batch 240")).exit_code, 0);
  const CommandOutput two = Two(OnPairs("two", sgd + "--batch 240"));
  ASSERT_EQ(two.exit_code, 0) << two.err;
  const std::vector<io::Json> a = ReadEvaluations(folder_ / "one"), b = ReadEvaluations(folder_ / "two");
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(a[i]["loss"], b[i]["loss"], 1e-3);
    EXPECT_NEAR(a[i]["train_loss"], b[i]["train_loss"], 1e-3);
  }
}
#endif

// Marian's two tokenizers: what it writes is right by its own measure.
TEST_F(PairRuns, EvaluationReadsAndWritesAsTranslateDoes) {
  const std::string model = Golden("tasks/marian");
  std::string pairs, sources;
  const io::Json expected = io::ReadJson(fs::path(model) / "expected.json");
  for (const io::Json& text : expected["texts"]) sources += text.get<std::string>() + "\n";
  WriteFile(folder_ / "sources.txt", sources);
  const std::string greedy = " --beams 1 -q -m " + model + " ";
  std::istringstream written(Qkv("translate" + greedy + Path("sources.txt")).out), read(sources);
  for (std::string source, target; std::getline(read, source) && std::getline(written, target);) {
    if (!target.empty()) pairs += source + "\t" + target + "\n";
  }
  ASSERT_FALSE(pairs.empty());
  WriteFile(folder_ / "own.tsv", pairs);
  const CommandOutput answer = Qkv("evaluate --json" + greedy + Path("own.tsv"));
  ASSERT_EQ(answer.exit_code, 0) << answer.err;
  EXPECT_NEAR(JsonLines(answer.out).at(0)["bleu"], 100, 1e-6);
  EXPECT_GT(JsonLines(answer.out).at(0)["top1"], 0.3);
}

TEST_F(PairRuns, EvaluationRefusesWhatPairsDoNotHave) {
  WritePairs(20, 1);
  WriteFile(folder_ / "lines.txt", "a\nb\n");
  const std::string model = " -m english-italian ";
  for (const auto& [arguments, named] : {std::pair<std::string, std::string>{Path("none.tsv") + model, "no such file"},
                                         {Path("lines.txt") + model, "no .tsv whose first line"},
                                         {Path("pairs.tsv"), "by -m"},
                                         {Path("pairs.tsv") + model + "--size 32x32", "do not apply to a text model"},
                                         {Path("pairs.tsv") + model + "--window 1,2", "apply to images only"},
                                         {Path("pairs.tsv") + model + "--split val", "no run of qkv train"}}) {
    const CommandOutput refused = Qkv("evaluate " + arguments);
    EXPECT_NE(refused.exit_code, 0) << arguments;
    EXPECT_TRUE(Contains(refused.err, named)) << refused.err;
  }
}

}  // namespace
}  // namespace qkv
