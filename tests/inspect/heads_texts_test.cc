// Statistics of heads on texts against their definitions, on the attention that the model's pass gives.
#include "qkv/inspect/heads_texts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/support/goldens.h"

namespace qkv::inspect {
namespace {

// Texts of 5, 7 and 9 tokens, and of a decoder with a source 4, 6 and 3.
std::vector<TextIds> Texts(bool pair) {
  std::vector<TextIds> texts;
  for (const auto& [n, t] : {std::pair{5, 4}, {7, 6}, {9, 3}}) {
    TextIds& text = texts.emplace_back();
    for (int i = 0; i < n; ++i) text.ids.push_back(3 + (7 * i + n) % 50);
    for (int i = 0; i < t && pair; ++i) text.target.push_back(3 + (11 * i + t) % 50);
  }
  return texts;
}

struct Measured {
  model::TextCheckpoint checkpoint;
  std::vector<AttentionPart> parts;
  model::TextModel model;
  std::vector<TextIds> texts;
  std::vector<TokenStatistics> statistics;

  explicit Measured(const std::string& name)
      : checkpoint(model::TextCheckpoint::Open(TextGoldenFolder(name))),
        parts(FindParts(checkpoint)),
        model(checkpoint),
        texts(Texts(parts.size() > 1)) {
    int64_t steps = 0;
    statistics = MeasureTexts(parts, model, texts, [&] { ++steps; });
    EXPECT_EQ(steps, TextSteps(parts, texts));
  }

  // A of one part's block, [H, T, N], of a text.
  Tensor<float> Attention(size_t part, int64_t block, const TextIds& text) const {
    const bool pair = parts.size() > 1, of_encoder = parts[part].kind == PartKind::kEncoder;
    const int64_t n = std::ssize(text.ids), t = pair ? std::ssize(text.target) : n, T = pair && !of_encoder ? t : n;
    Tensor<float> A({1, parts[part].attention().heads, T, parts[part].is_cross() ? n : T});
    model::TextOutputs outputs;
    auto& to = parts[part].is_cross() ? outputs.cross_attention
               : pair && of_encoder   ? outputs.encoder_attention
                                      : outputs.attention;
    to.push_back({block, {0, T, A}});
    model::TextWorkspace workspace;
    model::TextInputs inputs{.ids = View<const int32_t>(text.ids.data(), {1, n})};
    if (pair) inputs.decoder_ids = View<const int32_t>(text.target.data(), {1, t});
    model.Forward(inputs, workspace, outputs);
    return A;
  }
};

class StatisticsOfTexts : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Families, StatisticsOfTexts, testing::Values("bert", "gpt2", "llama", "t5", "marian"));

TEST_P(StatisticsOfTexts, AreWhatTheirNamesSay) {
  const Measured measured(GetParam());
  for (size_t p = 0; p < measured.parts.size(); ++p) {
    const AttentionPart& part = measured.parts[p];
    const TokenStatistics& statistics = measured.statistics[p];
    const int64_t H = part.attention().heads;
    ASSERT_EQ(std::ssize(statistics.attention), part.config->depth * H);
    for (int64_t block = 0; block < part.config->depth; ++block) {
      for (int64_t h = 0; h < H; ++h) {
        double entropy = 0, distance = 0, near = 0, self = 0, first = 0, last = 0, d = 0, u = 0, queries = 0;
        for (const TextIds& text : measured.texts) {
          const Tensor<float> A = measured.Attention(p, block, text);
          const int64_t T = A.dim(2), N = A.dim(3);
          for (int64_t i = 0; i < T; ++i, ++queries) {
            for (int64_t j = 0; j < N; ++j) {
              const double a = *A.view().at(0, h, i, j);
              if (a > 0) entropy -= a * std::log(a);
              distance += a * std::abs(static_cast<double>(i - j));
              if (std::abs(i - j) <= 1) near += a;
              if (i == j) self += a;
              if (j == 0) first += a;
              if (j == N - 1) last += a;
              const double away = std::abs(static_cast<double>(i) / static_cast<double>(T - 1) -
                                           static_cast<double>(j) / static_cast<double>(N - 1));
              d += a * away, u += away / static_cast<double>(N);
            }
          }
        }
        const HeadAttention& got = statistics.attention[static_cast<size_t>(block * H + h)];
        EXPECT_NEAR(got.entropy, entropy / queries, 1e-5);
        if (part.is_cross()) {
          EXPECT_NEAR(got.last, last / queries, 1e-6);
          EXPECT_NEAR(got.diagonal, 1 - d / u, 1e-5);
          EXPECT_TRUE(std::isnan(got.distance) && std::isnan(got.self) && std::isnan(got.first));
        } else {
          EXPECT_NEAR(got.distance, distance / queries, 1e-5);
          EXPECT_NEAR(got.near, near / queries, 1e-6);
          EXPECT_NEAR(got.self, self / queries, 1e-6);
          EXPECT_NEAR(got.first, first / queries, 1e-6);
          EXPECT_TRUE(std::isnan(got.diagonal) && std::isnan(got.last));
        }
        EXPECT_TRUE(std::isnan(got.registers) && std::isnan(got.class_token));
      }
    }
  }
}

TEST(StatisticsOfTexts, OfUniformAttentionAreThoseOfWhatIsSeen) {
  const Measured bert("bert"), gpt2("gpt2");
  double whole = 0, causal = 0;
  for (const int n : {5, 7, 9}) {
    whole += n * std::log(n);
    for (int i = 1; i <= n; ++i) causal += std::log(i);
  }
  EXPECT_NEAR(bert.statistics[0].uniform.entropy, whole / 21, 1e-6);
  EXPECT_NEAR(gpt2.statistics[0].uniform.entropy, causal / 21, 1e-6);
  EXPECT_EQ(bert.statistics[0].tokens, 21);
}

// Logits are split on the first seven tokens of the two texts that have as many, where scores allow it.
TEST(StatisticsOfTexts, SplitLogitsOfSelfAttention) {
  for (const char* name : {"bert", "gpt2", "marian", "t5"}) {
    const Measured measured(name);
    for (size_t p = 0; p < measured.parts.size(); ++p) {
      const TokenStatistics& t = measured.statistics[p];
      if (measured.parts[p].is_cross()) {
        EXPECT_TRUE(t.logits.empty());
        continue;
      }
      ASSERT_EQ(t.logits.size(), t.attention.size()) << name;
      EXPECT_EQ(t.split_texts, 2);
      EXPECT_EQ(t.split_tokens, measured.parts[p].kind == PartKind::kDecoder && measured.parts.size() > 1 ? 4 : 7);
      for (const LogitShares& head : t.logits) {
        EXPECT_NEAR(std::accumulate(head.share.begin(), head.share.end(), 0.0), 1, 1e-9);
        EXPECT_EQ(std::isnan(head.same), measured.parts[p].causal());
      }
    }
  }
  EXPECT_TRUE(Measured("llama").statistics[0].logits.empty());
  EXPECT_TRUE(Measured("qwen3").statistics[0].logits.empty());
}

TEST(StatisticsOfTexts, NeedATextAndTwoToSplit) {
  const Measured bert("bert");
  EXPECT_THROW(MeasureTexts(bert.parts, bert.model, {}, [] {}), Error);
  EXPECT_TRUE(MeasureTexts(bert.parts, bert.model, {bert.texts.data(), 1}, [] {})[0].logits.empty());
}

}  // namespace
}  // namespace qkv::inspect
