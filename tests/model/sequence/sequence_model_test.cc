// Sequence models at work: token by token as all at once, sequences alone and together, under every instruction set;
// and folders that are refused.
#include "qkv/model/sequence/sequence_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/model/checkpoint/kind.h"
#include "qkv/model/checkpoint/sequence_checkpoint.h"
#include "qkv/model/layout/cost.h"
#include "qkv/model/layout/tensor_table.h"
#include "qkv/model/sequence/decoder.h"
#include "tests/support/allocation_count.h"
#include "tests/support/checkpoints.h"
#include "tests/support/difference.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"
#include "tests/support/isas.h"
#include "tests/support/sequences.h"

namespace qkv::model {
namespace {

namespace fs = std::filesystem;

TensorSet RandomSet(const SequenceConfig& c) {
  TensorSet set(TensorTable(c));
  for (auto& [name, tensor] : set.tensors) {
    if (!name.ends_with("bandwidth")) continue;
    for (float& h : tensor.span()) h = 0.5f + std::abs(h);
  }
  return set;
}

// A model of random tensors, read from a folder.
void Write(const SequenceConfig& c, const TensorSet& set, const fs::path& folder) {
  fs::create_directories(folder);
  WriteFile(folder / "config.json", ToJson(c).dump(2));
  set.Write(folder / "model.safetensors");
}

std::vector<NamedSequence> Decoders() {
  std::vector<NamedSequence> all = NamedSequences();
  std::erase_if(all, [](const NamedSequence& c) { return !c.config.causal; });
  return all;
}

// Logits after each token but the first `prompt` − 1, which come at once: [N, outputs], zeros before.
template <typename T>
Tensor<T> TokenByToken(Decoder<T>& decoder, std::span<const int32_t> tokens, int64_t prompt, int64_t outputs) {
  const auto N = static_cast<int64_t>(tokens.size());
  Tensor<T> logits({N, outputs});
  std::span<const T> last = decoder.Prefill(tokens.first(static_cast<size_t>(prompt)));
  for (int64_t n = prompt;; ++n) {
    std::ranges::copy(last, logits.view().row(n - 1));
    if (n == N) return logits;
    last = decoder.Next(tokens[static_cast<size_t>(n)]);
  }
}

class DecoderTest : public IsaTest {
 protected:
  TemporaryFolder folder_;
};
QKV_FOR_ALL_ISAS(DecoderTest);

// In double up to some roundings of the two blocks' products; in float as near to the exact logits as the whole pass,
// by the design's criterion.
TEST_P(DecoderTest, TokenByTokenIsTheWholePass) {
  for (const auto& [name, c] : Decoders()) {
    SCOPED_TRACE(name);
    Write(c, RandomSet(c), folder_ / name);
    const auto exact = SequenceModel<double>::Load(folder_ / name);
    const auto single = SequenceModel<float>::Load(folder_ / name);
    const Tensor<int32_t> tokens = RandomTokens(c, 1, c.length);
    const Tensor<double> whole = exact.Logits(tokens);
    const Tensor<float> whole_single = single.Logits(tokens);
    Decoder<double> decoder(exact);
    Decoder<float> decoder_single(single);
    for (const int64_t prompt : {int64_t{1}, int64_t{3}, c.length}) {
      Tensor<double> expected({c.length, c.outputs});
      Tensor<float> expected_single({c.length, c.outputs});
      const int64_t known = (prompt - 1) * c.outputs;
      std::copy(whole.data() + known, whole.data() + whole.size(), expected.data() + known);
      std::copy(whole_single.data() + known, whole_single.data() + whole.size(), expected_single.data() + known);
      const auto got = TokenByToken(decoder, tokens.span(), prompt, c.outputs);
      EXPECT_LE(MaxDifference(got, expected), 64 * std::numeric_limits<double>::epsilon() * MaxAbs(expected));
      const auto got_single = TokenByToken(decoder_single, tokens.span(), prompt, c.outputs);
      EXPECT_LE(MaxDifference(got_single, expected),
                4 * MaxDifference(expected_single, expected) + 1e-6 * MaxAbs(expected));
    }
  }
}

TEST_P(DecoderTest, ForgetsTheOlderHalfWhenItIsFull) {
  SequenceConfig c = SmallSequence();
  c.causal = true, c.positions = SequencePositions::kRotary;
  Write(c, RandomSet(c), folder_ / "model");
  const auto model = SequenceModel<double>::Load(folder_ / "model");
  Decoder<double> decoder(model);
  const Tensor<int32_t> tokens = RandomTokens(c, 1, 4 * c.length);
  decoder.Prefill(tokens.span().first(2));
  for (int64_t n = 2; n < tokens.size(); ++n) {
    const std::span<const double> logits = decoder.Next(tokens[n]);
    const auto kept = static_cast<int64_t>(decoder.tokens().size());
    ASSERT_LE(kept, c.length);
    ASSERT_GE(kept, std::min(n + 1, c.length / 2 + 1));
    Tensor<int32_t> read({1, kept});
    for (int64_t i = 0; i < kept; ++i) {
      read[i] = decoder.tokens()[static_cast<size_t>(i)];
      ASSERT_EQ(read[i], tokens[n + 1 - kept + i]) << "not the last of them";
    }
    const Tensor<double> whole = model.Logits(read);
    for (int64_t i = 0; i < c.outputs; ++i) {
      ASSERT_NEAR(logits[static_cast<size_t>(i)], whole[(kept - 1) * c.outputs + i], 1e-13);
    }
  }
  // More than fit: the last of them.
  decoder.Prefill(tokens.span());
  EXPECT_TRUE(std::ranges::equal(decoder.tokens(), tokens.span().last(static_cast<size_t>(c.length))));
}

class SequenceModelTest : public testing::Test {
 protected:
  TemporaryFolder folder_;
};

TEST_F(SequenceModelTest, SequencesDoNotKnowOfEachOther) {
  for (const auto& [name, c] : NamedSequences()) {
    SCOPED_TRACE(name);
    Write(c, RandomSet(c), folder_ / name);
    const auto model = SequenceModel<float>::Load(folder_ / name);
    const Tensor<int32_t> tokens = RandomTokens(c, 3, c.length);
    const Tensor<float> together = model.Logits(tokens);
    for (int64_t b = 0; b < 3; ++b) {
      const Tensor<float> alone = model.Logits(tokens.view().slice(0, b, b + 1));
      for (int64_t i = 0; i < alone.size(); ++i) ASSERT_EQ(alone[i], together.view().at(b)[i]);
    }
  }
}

// Gamma and beta, LayerScale and biases folded away, or not.
TEST_F(SequenceModelTest, SavingsChangeNothing) {
  for (const auto& [name, c] : NamedSequences()) {
    SCOPED_TRACE(name);
    Write(c, RandomSet(c), folder_ / name);
    const Tensor<int32_t> tokens = RandomTokens(c, 2, c.length);
    const Tensor<double> folded = SequenceModel<double>::Load(folder_ / name).Logits(tokens);
    const Tensor<double> plain =
        SequenceModel<double>::Load(folder_ / name,
                                    {.fold_norms = false, .fold_scales = false, .fold_key_value_bias = false})
            .Logits(tokens);
    EXPECT_LE(MaxDifference(folded, plain), 64 * std::numeric_limits<double>::epsilon() * MaxAbs(plain));
  }
}

// As for image models: weights, and rows, are rounded to 8 bits.
TEST_F(SequenceModelTest, RunsInLowerPrecisions) {
  SequenceConfig c = SmallSequence();
  c.causal = true, c.positions = SequencePositions::kRotary;
  Write(c, RandomSet(c), folder_ / "model");
  const Tensor<int32_t> tokens = RandomTokens(c, 2, c.length);
  const Tensor<float> exact = SequenceModel<float>::Load(folder_ / "model").Logits(tokens);
  for (const auto& [precision, bound] :
       {std::pair{simd::Precision::kBfloat16, 0.06}, std::pair{simd::Precision::kInt8, 0.12}}) {
    const Tensor<float> low = SequenceModel<float>::Load(folder_ / "model", {.precision = precision}).Logits(tokens);
    EXPECT_LE(MaxDifference(low, exact), bound * MaxAbs(exact));
    EXPECT_GT(MaxDifference(low, exact), 0);
  }
}

TEST_F(SequenceModelTest, AllocatesNothingOnceItHasRun) {
  for (const NamedSequence& named : Decoders()) {
    SCOPED_TRACE(named.name);
    const SequenceConfig& c = named.config;
    Write(c, RandomSet(c), folder_ / named.name);
    const auto model = SequenceModel<float>::Load(folder_ / named.name);
    const Tensor<int32_t> tokens = RandomTokens(c, 2, c.length);
    Tensor<float> logits({2, c.length, c.outputs});
    Arena arena;
    Decoder<float> decoder(model);
    const int64_t first = g_allocations.load();
    const auto run = [&] {
      model.Logits(tokens, arena, logits);
      decoder.Prefill(tokens.span().first(3));
      for (int64_t n = 3; n < c.length; ++n) decoder.Next(tokens[n]);
    };
    for (int i = 0; i < 3; ++i) run();
    const int64_t before = g_allocations.load();
    EXPECT_GT(before, first) << "nothing is counted";
    for (int i = 0; i < 3; ++i) run();
    EXPECT_EQ(g_allocations.load(), before);
  }
}

TEST_F(SequenceModelTest, RefusesWhatDoesNotFit) {
  const SequenceConfig c = SmallSequence();
  Write(c, RandomSet(c), folder_ / "model");
  const auto model = SequenceModel<float>::Load(folder_ / "model");
  Tensor<int32_t> tokens({1, c.length}), longer({1, c.length + 1});
  EXPECT_NO_THROW(model.Logits(tokens));
  EXPECT_THROW(model.Logits(longer), Error);
  EXPECT_THROW(model.Logits(View<const int32_t>()), Error);
  tokens[2] = static_cast<int32_t>(c.vocabulary);
  EXPECT_NE(ErrorMessage([&] { model.Logits(tokens); }).find("token 2 is 6"), std::string::npos);
  EXPECT_NE(ErrorMessage([&] { Decoder<float> decoder(model); }).find("not causal"), std::string::npos);
  SequenceConfig causal = c;
  causal.causal = true;
  Write(causal, RandomSet(causal), folder_ / "causal");
  const auto decodes = SequenceModel<float>::Load(folder_ / "causal");
  Decoder<float> decoder(decodes);
  EXPECT_THROW(decoder.Prefill({}), Error);
  decoder.Prefill(longer.span().first(2));
  EXPECT_THROW(decoder.Next(-1), Error);
  EXPECT_EQ(decoder.tokens().size(), 2u) << "what was refused is not part of it";
  EXPECT_NO_THROW(decoder.Next(1));
}

TEST_F(SequenceModelTest, RefusesTensorsThatAreNotItsOwnByName) {
  const SequenceConfig c = SmallSequence();
  const auto message = [&](const TensorSet& set) {
    Write(c, set, folder_ / "model");
    return ErrorMessage([&] { SequenceModel<float>::Load(folder_ / "model"); });
  };
  const auto contains = [](const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_EQ(message(RandomSet(c)), "");
  TensorSet missing = RandomSet(c);
  missing.Erase("blocks.1.attn.qkv.weight");
  EXPECT_TRUE(contains(message(missing), "1 missing:\n  blocks.1.attn.qkv.weight [24, 8]")) << message(missing);
  TensorSet more = RandomSet(c);
  more.tensors.emplace_back("lm_head.weight", Tensor<float>({2, 2}));
  EXPECT_TRUE(contains(message(more), "1 left over:\n  lm_head.weight [2, 2]")) << message(more);
  TensorSet other = RandomSet(c);
  other.at("pos_embed") = Tensor<float>({1, c.length + 1, c.block.width});
  EXPECT_TRUE(contains(message(other), "pos_embed is [1, 8, 8], expected [1, 7, 8]")) << message(other);
  TensorSet infinite = RandomSet(c);
  infinite.at("head.bias")[1] = INFINITY;
  EXPECT_TRUE(contains(message(infinite), "head.bias")) << message(infinite);
  fs::remove(folder_ / "model" / "config.json");
  EXPECT_TRUE(contains(ErrorMessage([&] { SequenceCheckpoint::Open(folder_ / "model"); }), "config.json"));
  EXPECT_NE(FindKind(folder_ / "model"), ModelKind::kSequences);
}

TEST_F(SequenceModelTest, ItsFolderIsToldFromOthers) {
  Write(SmallSequence(), RandomSet(SmallSequence()), folder_ / "model");
  EXPECT_EQ(FindKind(folder_ / "model"), ModelKind::kSequences);
  EXPECT_NE(FindKind(GoldenFolder("timm_vit")), ModelKind::kSequences);
  EXPECT_THROW(SequenceCheckpoint::Open(GoldenFolder("timm_vit")), Error);
  EXPECT_NE(ErrorMessage([&] { Checkpoint::Open(folder_ / "model"); }).find("sequence model"), std::string::npos);
}

TEST(SequenceConfigTest, IsReadAsItIsWritten) {
  for (const auto& [name, c] : NamedSequences()) {
    EXPECT_EQ(ParseSequenceConfig(io::Json::parse(ToJson(c).dump())), c) << name;
  }
  SequenceConfig bytes;
  bytes.meaning = TokenMeaning::kByte, bytes.block.norm.eps = 1e-5, bytes.block.mlp.width = 341;
  EXPECT_EQ(ParseSequenceConfig(ToJson(bytes)), bytes);
}

TEST(SequenceConfigTest, WidthsOfHeadsAndMlpMayFollowFromTheWidth) {
  io::Json json = ToJson(SmallSequence());
  json.erase("head_width"), json.erase("mlp_width");
  json["mlp_ratio"] = 1.25;
  EXPECT_EQ(ParseSequenceConfig(json), SmallSequence());
  json["heads"] = 3;
  EXPECT_NE(ErrorMessage([&] { ParseSequenceConfig(json); }).find("cannot be divided among 3 heads"),
            std::string::npos);
}

TEST(SequenceConfigTest, WhatCannotBeIsRefused) {
  const auto message = [](auto&& change) {
    SequenceConfig c = SmallSequence();
    change(c);
    return ErrorMessage([&] { Validate(c); });
  };
  const auto says = [&](std::string_view part, auto&& change) {
    const std::string text = message(change);
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  EXPECT_EQ(message([](auto&) {}), "");
  says("vocabulary", [](auto& c) { c.vocabulary = 0; });
  says("length", [](auto& c) { c.length = 0; });
  says("256 tokens", [](auto& c) { c.meaning = TokenMeaning::kByte; });
  says("rank", [](auto& c) { c.block.attention.kind = nn::AttentionKind::kLowRank; });
  const auto rotary = [](nn::AttentionKind kind, int64_t rank = 0) {
    return [=](auto& c) {
      c.positions = SequencePositions::kRotary, c.block.attention.kind = kind, c.block.attention.qk_width = rank;
    };
  };
  says("merged attention has both in one matrix", rotary(nn::AttentionKind::kMerged));
  says("gaussian attention has scores of places alone", rotary(nn::AttentionKind::kGaussian));
  says("positional attention has scores of places alone", rotary(nn::AttentionKind::kPositional));
  says("a head has 3", rotary(nn::AttentionKind::kLowRank, 3));
  says("even width",
       [](auto& c) { c.block.width = c.block.attention.heads = 7, c.positions = SequencePositions::kSinusoidal; });

  io::Json json = ToJson(SmallSequence());
  const auto refused = [&](const char* key, const io::Json& value) {
    io::Json other = json;
    other[key] = value;
    return ErrorMessage([&] { ParseSequenceConfig(other, "here"); });
  };
  EXPECT_NE(refused("positions", "alibi").find("here: \"positions\""), std::string::npos);
  EXPECT_NE(refused("qkv_attention", "linear").find("low_rank"), std::string::npos);
  EXPECT_NE(refused("causal", 1).find("\"causal\""), std::string::npos);
  EXPECT_NE(refused("tokens", "words").find("bytes"), std::string::npos);
  EXPECT_NE(refused("architecture", "vit").find("qkv_sequence"), std::string::npos);
  json.erase("width");
  EXPECT_NE(ErrorMessage([&] { ParseSequenceConfig(json, "here"); }).find("\"width\" is missing"), std::string::npos);
}

// 2 N (vectors of D and M, scores and sums), by hand for one block of one head.
TEST(SequenceConfigTest, CountsItsWork) {
  SequenceConfig c = SmallSequence();
  c.depth = 1;
  const double N = 7, D = 8, M = 10, outputs = 3;
  EXPECT_DOUBLE_EQ(Flops(c), 2 * (N * (4 * D * D + 2 * D * M + D * outputs) + 2 * N * N * D));
  EXPECT_EQ(Parameters(c),
            6 * 8 + 7 * 8 + (2 * 2 * 8 + 3 * 8 * 8 + 3 * 8 + 8 * 8 + 8 + 2 * 8 * 10 + 10 + 8) + 2 * 8 + 3 * 8 + 3);
}

}  // namespace
}  // namespace qkv::model
