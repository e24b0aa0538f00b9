// BLEU, chrF and ROUGE equal to sacrebleu's and rouge-score's (golden/generate_metrics.py).
#include <gtest/gtest.h>

#include "qkv/core/error.h"
#include "qkv/core/file.h"
#include "qkv/io/json.h"
#include "qkv/text/bleu.h"
#include "qkv/text/chrf.h"
#include "qkv/text/metric_tokens.h"
#include "qkv/text/porter_stemmer.h"
#include "qkv/text/rouge.h"
#include "tests/support/files.h"

namespace qkv::text {
namespace {

using Lines = std::vector<std::string>;

class MetricsGolden : public testing::Test {
 protected:
  // Ratios of equal counts in double; the originals take other roads to exponentials.
  static constexpr double kRounding = 1e-9;

  static void ExpectScores(const Lines& hypotheses, const Lines& references, const io::Json& golden) {
    const BleuScore bleu = CorpusBleu(hypotheses, references);
    const io::Json& theirs = golden["bleu"];
    for (size_t n = 0; n < bleu.total.size(); ++n) {
      EXPECT_EQ(bleu.correct[n], theirs["correct"][n]) << n;
      EXPECT_EQ(bleu.total[n], theirs["total"][n]) << n;
      EXPECT_NEAR(bleu.precisions[n], theirs["precisions"][n].get<double>(), kRounding) << n;
    }
    EXPECT_EQ(bleu.length, theirs["length"]);
    EXPECT_EQ(bleu.reference_length, theirs["reference_length"]);
    EXPECT_NEAR(bleu.brevity, theirs["brevity"].get<double>(), kRounding);
    EXPECT_NEAR(bleu.score, theirs["score"].get<double>(), kRounding);
    EXPECT_NEAR(CorpusChrf(hypotheses, references), golden["chrf"].get<double>(), kRounding);
    for (const bool stem : {false, true}) {
      const io::Json& lines = golden[stem ? "rouge_stemmed" : "rouge"];
      ASSERT_EQ(lines.size(), hypotheses.size());
      RougeScore sum;
      for (size_t i = 0; i < hypotheses.size(); ++i) {
        const RougeScore rouge = Rouge(hypotheses[i], references[i], stem);
        EXPECT_NEAR(rouge.rouge1, lines[i][0].get<double>(), kRounding) << hypotheses[i] << "\n" << references[i];
        EXPECT_NEAR(rouge.rouge2, lines[i][1].get<double>(), kRounding) << hypotheses[i] << "\n" << references[i];
        EXPECT_NEAR(rouge.rouge_l, lines[i][2].get<double>(), kRounding) << hypotheses[i] << "\n" << references[i];
        sum.rouge1 += rouge.rouge1, sum.rouge_l += rouge.rouge_l;
      }
      const RougeScore mean = MeanRouge(hypotheses, references, stem);
      EXPECT_NEAR(mean.rouge1 * static_cast<double>(hypotheses.size()), sum.rouge1, kRounding);
      EXPECT_NEAR(mean.rouge_l * static_cast<double>(hypotheses.size()), sum.rouge_l, kRounding);
    }
  }

  const io::Json golden_ = io::ParseJson(ReadFile(SourceFolder() / "tests/text/golden/metrics.json"), "metrics.json");
  const Lines hypotheses_ = golden_["hypotheses"].get<Lines>(), references_ = golden_["references"].get<Lines>();
};

TEST_F(MetricsGolden, CorporaScoreAsInTheOriginals) {
  for (const io::Json& corpus : golden_["corpora"]) {
    const auto begin = corpus["begin"].get<int64_t>(), end = corpus["end"].get<int64_t>();
    SCOPED_TRACE(fmt::format("lines {} to {}", begin, end));
    ExpectScores({hypotheses_.begin() + begin, hypotheses_.begin() + end},
                 {references_.begin() + begin, references_.begin() + end}, corpus);
  }
}

TEST_F(MetricsGolden, SoDoCorporaOfAFewWords) {
  for (const io::Json& corpus : golden_["small"]) {
    SCOPED_TRACE(corpus["hypotheses"].dump());
    ExpectScores(corpus["hypotheses"].get<Lines>(), corpus["references"].get<Lines>(), corpus);
  }
}

TEST_F(MetricsGolden, StemsAreThoseOfTheOriginal) {
  for (const auto& [word, stem] : golden_["stems"].items())
    EXPECT_EQ(PorterStem(word), stem.get<std::string>()) << word;
}

TEST(Metrics, WantAsManyReferencesAsHypotheses) {
  const Lines one = {"a"}, two = {"a", "b"};
  EXPECT_THROW(CorpusBleu(one, two), Error);
  EXPECT_THROW(CorpusChrf(one, two), Error);
  EXPECT_THROW(MeanRouge(two, one, false), Error);
}

TEST(Metrics, TakeAnyBytes) {
  const Lines broken = {std::string("\xff\xfe a\xc3", 5), std::string("a\0b", 3), ""}, right = {"a", "a b", ""};
  EXPECT_GE(CorpusBleu(broken, right).score, 0);
  EXPECT_GE(CorpusChrf(broken, right), 0);
  EXPECT_GE(MeanRouge(broken, right, true).rouge1, 0);
  EXPECT_EQ(CorpusBleu({}, {}).score, 0);
}

TEST(Metrics, SplitNumbersNowhere) {
  EXPECT_EQ(Tokenize13a("It costs $1,000.50, or 2-3 of U.S. (now)."),
            (Lines{"It", "costs", "$", "1,000.50", ",", "or", "2", "-", "3", "of", "U", ".", "S", ".", "(", "now", ")",
                   "."}));
}

}  // namespace
}  // namespace qkv::text
