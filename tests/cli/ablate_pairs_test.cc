// qkv ablate on pairs of texts: kinds of cross-attention.
#include <algorithm>

#include "qkv/core/rng.h"
#include "tests/cli/ablate.h"

namespace qkv {
namespace {

namespace fs = std::filesystem;

class AblatePairs : public Ablate {
 protected:
  AblatePairs() {
    WritePairs("pairs.tsv", 1);
    WritePairs("valid.tsv", 2);
  }
  void WritePairs(const std::string& name, uint64_t seed) const {
    constexpr const char* kWords[][2] = {{"rot", "red"}, {"blau", "blue"}, {"Haus", "house"}, {"Baum", "tree"}};
    Rng rng(seed);
    std::string text;
    for (int i = 0; i < 120; ++i) {
      const auto &a = kWords[rng.Next() % 4], &b = kWords[rng.Next() % 4];
      text += fmt::format("{} {}\t{} {}\n", a[0], b[0], b[1], a[1]);
    }
    WriteFile(folder_ / name, text);
  }
  // Runs of eight steps.
  std::string OnPairs(const std::string& output, const std::string& more) const {
    return fmt::format(
        "ablate {} -o {} --valid {} --vocabulary 300 --length 12 --width 16 --depth 1 --heads 2 --mlp-ratio 2 --steps "
        "8 "
        "--batch 200 --save-steps 2 --valid-lines 10 --threads 1 {}",
        (folder_ / "pairs.tsv").string(), (folder_ / output).string(), (folder_ / "valid.tsv").string(), more);
  }
};

TEST_F(AblatePairs, ComparesKindsOfCrossAttention) {
  const CommandOutput said = Qkv(OnPairs("out", "--seeds 1"));
  ASSERT_EQ(said.exit_code, 0) << said.err;
  EXPECT_TRUE(Contains(said.err, "7 of 7 runs have ended")) << said.err;
  for (const char* part : {"BLEU", "tokens right, %", "pairs/s", "symmetric:rank=8", "unified"}) {
    EXPECT_TRUE(Contains(said.out, part)) << part << said.out;
  }
  const auto runs = Runs("out");
  EXPECT_EQ(runs.size(), 7u);
  const auto parameters = [&](const std::string& arm) {
    return std::stoll(runs.at("pairs.tsv " + arm + " 0").at("parameters"));
  };
  // One projection less, of 16 to 16 with biases, in the one block of the decoder; the layers' own have both.
  EXPECT_EQ(parameters("separate") - parameters("shared"), 16 * 16 + 16);
  EXPECT_EQ(parameters("separate") - parameters("unified"), 2 * (16 * 16 + 16));
  EXPECT_GE(std::stod(runs.at("pairs.tsv merged 0").at("bleu")), 0);
  EXPECT_EQ(runs.at("pairs.tsv merged 0").at("symmetry"), "");
  const std::string report = Text("out/report.md");
  EXPECT_TRUE(Contains(report, "cross-attention; the layers' own attention is separate")) << report;
  EXPECT_TRUE(Contains(report, "BLEU")) << report;
  EXPECT_FALSE(Contains(report, "effective rank")) << report;
  EXPECT_TRUE(Contains(Text("out/bleu-pairs.tsv.svg"), "shared_kv"));
  EXPECT_EQ(Pictures(Text("out/report.html")), 4u) << "BLEU, accuracies, and differences of both";
  const io::Json results = io::Json::parse(Text("out/results.json"));
  EXPECT_EQ(results["unit"], "pairs");
  EXPECT_EQ(results["varied"], "cross-attention");
  ExpectSpeeds(results);
  // Each run translates, as any other.
  const CommandOutput answer =
      Qkv(fmt::format("evaluate --json -m {} {}", (folder_ / "out/runs/pairs.tsv,shared,seed=0").string(),
                      (folder_ / "valid.tsv").string()));
  EXPECT_EQ(answer.exit_code, 0) << answer.err;
  // Claim C19 tells of them, and C6, which is of the layers, does not.
  const CommandOutput claims =
      Qkv("qk claims --only C6,C19 --json --ablation " + (folder_ / "out/results.json").string());
  ASSERT_EQ(claims.exit_code, 0) << claims.err;
  EXPECT_EQ(JsonLines(claims.out)[0]["verdict"], "not measured");
  EXPECT_TRUE(Contains(JsonLines(claims.out)[1]["reason"], "shared − separate")) << claims.out;
}

TEST_F(AblatePairs, ProcessesShareTheRunsAndMoreSeedsGoOn) {
  const std::string arms = "--arms separate,shared ";
  ASSERT_EQ(Qkv(OnPairs("one", arms + "--seeds 2")).exit_code, 0);
  ASSERT_EQ(Qkv(OnPairs("two", arms + "--seeds 1 --processes 2")).exit_code, 0);
  ASSERT_EQ(Qkv(OnPairs("two", arms + "--seeds 2")).exit_code, 0);
  EXPECT_EQ(Runs("one"), Runs("two"));
  EXPECT_TRUE(Contains(Text("two/report.md"), "±")) << "intervals over seeds";
  const CommandOutput other = Qkv(OnPairs("two", arms + "--seeds 2 --vary both"));
  EXPECT_EQ(other.exit_code, 1) << "another part varies";
  EXPECT_TRUE(Contains(other.err, "another comparison")) << other.err;
}

TEST_F(AblatePairs, VariesTheLayersOrBoth) {
  const auto config = [&](const std::string& output) {
    return io::Json::parse(Text(output + "/runs/pairs.tsv,shared,seed=0/config.json"));
  };
  ASSERT_EQ(Qkv(OnPairs("layers", "--seeds 1 --arms separate,shared --vary attention")).exit_code, 0);
  EXPECT_EQ(config("layers")["qkv_attention"], "shared");
  EXPECT_EQ(config("layers").value("qkv_cross_attention", "separate"), "separate");
  ASSERT_EQ(Qkv(OnPairs("both", "--seeds 1 --arms separate,shared --vary both --equal parameters")).exit_code, 0);
  EXPECT_EQ(config("both")["qkv_attention"], "shared");
  EXPECT_EQ(config("both")["qkv_cross_attention"], "shared");
  const auto runs = Runs("both");
  EXPECT_NEAR(std::stod(runs.at("pairs.tsv separate 0").at("parameters")),
              std::stod(runs.at("pairs.tsv shared 0").at("parameters")), 33)
      << "a wider MLP makes up for it";
  ASSERT_EQ(Qkv(OnPairs("flops", "--seeds 1 --arms separate,shared --vary both --equal flops")).exit_code, 0);
  EXPECT_GT(std::stod(Runs("flops").at("pairs.tsv shared 0").at("steps")), 8);
}

TEST_F(AblatePairs, RefusesWhatCannotBeCompared) {
  for (const auto& [more, named] : {std::pair<std::string, std::string>{"task:copy", "is of pairs of texts"},
                                    {(folder_ / "data").string(), "is of pairs of texts"},
                                    {"--cross-attention shared", "arms and seeds say"},
                                    {"--arms separate,gaussian", "expected one of separate"},
                                    {"--arms separate,shared:valid=x.tsv", "valid must be the same"},
                                    {"--arms separate,separate:qkv-bias=false", "qkv-bias"},
                                    {"--vary all", "--vary"}}) {
    const CommandOutput said = Qkv(OnPairs("refused", more));
    EXPECT_NE(said.exit_code, 0) << more << said.err;
    EXPECT_TRUE(Contains(said.err, named)) << more << ": " << said.err;
  }
  EXPECT_FALSE(fs::exists(folder_ / "refused")) << "nothing was begun";
  const CommandOutput said = Qkv(OnTasks("task:copy", "refused", "--vary both"));
  EXPECT_EQ(said.exit_code, 1);
  EXPECT_TRUE(Contains(said.err, "no other model has cross-attention")) << said.err;
}

}  // namespace
}  // namespace qkv
