// The matrices M of the heads of text models against the models' own attention: from the tokens that a layer reads,
// M and the terms of the biases give the weights of the pass, for every part, block and head of a golden of each
// family.
#include "qkv/inspect/parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "qkv/algebra/fold.h"
#include "qkv/algebra/logits.h"
#include "qkv/algebra/merge.h"
#include "qkv/algebra/rope.h"
#include "qkv/io/safetensors.h"
#include "qkv/model/layout/bound_tensor.h"
#include "tests/support/goldens.h"
#include "tests/support/integers.h"

namespace qkv::inspect {
namespace {

using Matrix = Tensor<double>;

// What norm gives before gain and offset. x: [N, D]
Matrix Normalised(const Matrix& x, TokenNorm norm, double eps) {
  if (norm == TokenNorm::kLayerNorm) return algebra::Normalise(x, eps);
  Matrix out = x.Clone();
  const int64_t D = x.dim(1);
  for (int64_t i = 0; i < x.dim(0) && norm == TokenNorm::kRmsNorm; ++i) {
    double squares = 0;
    for (int64_t d = 0; d < D; ++d) squares += x[i * D + d] * x[i * D + d] / static_cast<double>(D);
    for (int64_t d = 0; d < D; ++d) out[i * D + d] /= std::sqrt(squares + eps);
  }
  return out;
}

void ApplyGain(const Matrix& gamma, const Matrix& beta, Matrix* x) {
  for (int64_t i = 0; i < x->size() && !gamma.empty(); ++i) {
    (*x)[i] = (*x)[i] * gamma[i % gamma.size()] + (beta.empty() ? 0 : beta[i % beta.size()]);
  }
}
void TakeGain(const Matrix& gamma, const Matrix& beta, Matrix* x) {
  for (int64_t i = 0; i < x->size() && !gamma.empty(); ++i) {
    (*x)[i] = ((*x)[i] - (beta.empty() ? 0 : beta[i % beta.size()])) / gamma[i % gamma.size()];
  }
}

// x̂ of the tokens that enter a layer.
Matrix Hat(const AttentionWeights& weights, const Matrix& tokens) {
  if (!weights.norm_is_stream) return Normalised(tokens, weights.norm, weights.eps);
  Matrix hat = tokens.Clone();
  TakeGain(weights.gamma, weights.beta, &hat);
  return hat;
}

// y = x Wᵀ + b
Matrix Apply(const algebra::ProjectionView& p, const Matrix& x) { return algebra::Apply(p, x); }

// The first text of a golden with all that its layers read, in double.
class Pass {
 public:
  explicit Pass(const std::string& name)
      : checkpoint(model::TextCheckpoint::Open(TextGoldenFolder(name))), parts(FindParts(checkpoint)) {
    const auto expected = io::SafeTensors::Open(TextGoldenFolder(name) / "expected.safetensors");
    const auto first = [&](const char* tensor) {
      const Tensor<int32_t> all = ReadIntegers<int32_t>(*expected.Find(tensor));
      Tensor<int32_t> ids({1, all.dim(1)});
      std::copy_n(all.data(), ids.size(), ids.data());
      return ids;
    };
    const model::TextDescription& d = checkpoint.description;
    Arena arena;
    model::Source<double> source;
    if (d.encoder) {
      const model::SequenceModel<double> encoder(*d.encoder, checkpoint.encoder);
      const Tensor<int32_t> ids = first("input_ids");
      tokens = Matrix({1, ids.dim(1), d.encoder->block.width});
      encoder.Forward(ids, {}, arena, Request(*d.encoder, ids.dim(1), 0, &of_encoder, tokens));
    }
    if (!d.decoder) return;
    const model::SequenceModel<double> decoder(*d.decoder, checkpoint.decoder);
    const Tensor<int32_t> ids = first(d.encoder ? "decoder_input_ids" : "input_ids");
    int64_t N = 0;
    if (d.encoder) {
      N = tokens.dim(1);
      Tensor<int64_t> lengths({1});
      lengths[0] = N;
      decoder.ReadSource(tokens, lengths, arena, &source);
    }
    Matrix last({1, ids.dim(1), d.decoder->block.width});
    decoder.Forward(ids, {.source = d.encoder ? &source : nullptr}, arena,
                    Request(*d.decoder, ids.dim(1), N, &of_decoder, last));
  }

  struct Captured {
    std::vector<Matrix> hidden, attention, cross;  // of each block: [1, T, D], [1, H, T, T], [1, H, T, N]
  };

  const Captured& of(const AttentionPart& part) const {
    return part.kind == PartKind::kEncoder ? of_encoder : of_decoder;
  }

  model::TextCheckpoint checkpoint;
  std::vector<AttentionPart> parts;
  Captured of_encoder, of_decoder;
  Matrix tokens;  // last of the encoder, [1, N, D]

 private:
  static model::SequenceOutputs<double> Request(const model::SequenceConfig& c, int64_t T, int64_t N,
                                                Captured* captured, Matrix& last) {
    model::SequenceOutputs<double> outputs{.tokens = last};
    for (int64_t block = 0; block < c.depth; ++block) {
      captured->hidden.emplace_back(Shape{1, T, c.block.width});
      captured->attention.emplace_back(Shape{1, c.block.attention.heads, T, T});
      if (N > 0) captured->cross.emplace_back(Shape{1, c.block.cross->heads, T, N});
    }
    for (size_t block = 0; block < captured->hidden.size(); ++block) {
      const auto index = static_cast<int64_t>(block);
      outputs.hidden.push_back({index, captured->hidden[block]});
      outputs.attention.push_back({index, {0, T, captured->attention[block]}});
      if (N > 0) outputs.cross_attention.push_back({index, {0, T, captured->cross[block]}});
    }
    return outputs;
  }
};

Matrix AsMatrix(const Matrix& x) {
  Matrix matrix({x.dim(1), x.dim(2)});
  std::ranges::copy(x.span(), matrix.data());
  return matrix;
}

// What cross-attention reads as queries: the block's tokens with its self-attention, whose weights are captured, added.
Matrix AfterSelfAttention(const Pass& pass, const AttentionPart& decoder, size_t block) {
  const AttentionWeights weights = ReadAttention(decoder, static_cast<int64_t>(block));
  Matrix x = AsMatrix(pass.of(decoder).hidden[block]), read = x.Clone();
  if (!weights.norm_is_stream) {
    read = Normalised(x, weights.norm, weights.eps);
    ApplyGain(weights.gamma, weights.beta, &read);
  }
  const Matrix value = Apply(weights.value, read), &A = pass.of(decoder).attention[block];
  const int64_t T = x.dim(0), H = weights.heads, E = value.dim(1) / H;
  Matrix joined({T, H * E});
  for (int64_t h = 0; h < H; ++h) {
    for (int64_t i = 0; i < T; ++i) {
      for (int64_t j = 0; j < T; ++j) {
        for (int64_t e = 0; e < E; ++e)
          joined[(i * H + h) * E + e] += A[(h * T + i) * T + j] * value[(j * H + h) * E + e];
      }
    }
  }
  const Matrix out = Apply(weights.output, joined);
  for (int64_t i = 0; i < x.size(); ++i) x[i] += out[i];
  if (decoder.config->block.norm_place == nn::NormPlace::kBefore) return x;
  const model::StoredBlocks& blocks = decoder.blocks;
  const std::string norm = fmt::format("blocks.{}.norm1.", block);
  Matrix after = Normalised(x, TokenNorm::kLayerNorm, decoder.config->block.norm.eps);
  ApplyGain(blocks.Read<double>(norm + "weight"), blocks.Read<double>(norm + "bias"), &after);
  return after;
}

// What the file adds to the logits of a head, by its own table.
double Bias(const Pass& pass, const AttentionPart& part, int64_t h, int64_t i, int64_t j) {
  if (!part.relative_bias()) return 0;
  const auto& bound = part.kind == PartKind::kEncoder ? pass.checkpoint.encoder : pass.checkpoint.decoder;
  const auto table = model::Read<double>(*model::FindTensor(bound, "rel_bias.weight"));
  return *table.view().at(model::RelativeBucket(*part.config, j - i), h);
}

algebra::Projection FoldedHead(const AttentionWeights& weights, const algebra::Projection& layer, TokenNorm norm,
                               const Matrix& gamma, const Matrix& beta, int64_t h) {
  return FoldNorm(algebra::Head(layer, h, weights.heads), norm, gamma, beta);
}

// s (x̂ M ŷᵀ + 1 (ŷu)ᵀ + (x̂w) 1ᵀ + c), with M of each distance if queries and keys are rotated.
Matrix LogitsOfM(const AttentionPart& part, const AttentionWeights& weights, const Matrix& x, const Matrix& y,
                 int64_t h) {
  const SourceTokens* const source = weights.source ? &*weights.source : nullptr;
  const algebra::Projection query = FoldedHead(weights, weights.query, weights.norm, weights.gamma, weights.beta, h);
  const algebra::Projection key =
      FoldedHead(weights, weights.key, source ? source->norm : weights.norm, source ? source->gamma : weights.gamma,
                 source ? source->beta : weights.beta, h);
  if (!part.rotary()) {
    return algebra::Logits(algebra::Merge(algebra::QueryKeyView{query, key}, algebra::Terms::kExact), x, y,
                           weights.scale);
  }
  const algebra::Rope rope{.base = part.config->rotary_base};
  Matrix logits({x.dim(0), y.dim(0)});
  for (int64_t i = 0; i < x.dim(0); ++i) {
    for (int64_t j = 0; j < y.dim(0); ++j) {
      const algebra::Projection turned = algebra::Rotate(key, rope, static_cast<double>(j - i));
      const auto row = [](const Matrix& m, int64_t n) {
        Matrix one({1, m.dim(1)});
        std::copy_n(m.data() + n * m.dim(1), m.dim(1), one.data());
        return one;
      };
      logits[i * y.dim(0) + j] =
          algebra::Logits(algebra::Merge(algebra::QueryKeyView{query, turned}, algebra::Terms::kExact), row(x, i),
                          row(y, j), weights.scale)[0];
    }
  }
  return logits;
}

class HeadsOfText : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Families, HeadsOfText,
                         testing::Values("bert", "roberta", "distilbert", "gpt2", "llama", "llama_tied", "qwen2", "t5",
                                         "t5_gated", "t5_encoder", "marian", "marian_safetensors", "marian_trained"));

TEST_P(HeadsOfText, MGivesTheModelsAttention) {
  const Pass pass(GetParam());
  for (const AttentionPart& part : pass.parts) {
    for (int64_t block = 0; block < part.config->depth; ++block) {
      const auto at = static_cast<size_t>(block);
      const AttentionWeights weights = ReadAttention(part, block);
      const AttentionPart& own = part.is_cross() ? pass.parts[1] : part;
      const Matrix x =
          Hat(weights, part.is_cross() ? AfterSelfAttention(pass, own, at) : AsMatrix(pass.of(part).hidden[at]));
      Matrix y = x.Clone();
      if (part.is_cross()) {
        y = AsMatrix(pass.tokens);
        TakeGain(weights.source->gamma, weights.source->beta, &y);
      }
      const Matrix& expected = part.is_cross() ? pass.of(part).cross[at] : pass.of(part).attention[at];
      const int64_t T = x.dim(0), N = y.dim(0);
      for (int64_t h = 0; h < weights.heads; ++h) {
        const Matrix S = LogitsOfM(part, weights, x, y, h);
        for (int64_t i = 0; i < T; ++i) {
          const int64_t keys = part.causal() ? i + 1 : N;
          std::vector<double> row(static_cast<size_t>(keys));
          double sum = 0;
          for (int64_t j = 0; j < keys; ++j) {
            sum += row[static_cast<size_t>(j)] = std::exp(S[i * N + j] + Bias(pass, part, h, i, j));
          }
          for (int64_t j = 0; j < N; ++j) {
            // Logits of some ten, whose roundings the division by small gains makes greater.
            EXPECT_NEAR(j < keys ? row[static_cast<size_t>(j)] / sum : 0, expected[(h * T + i) * N + j], 1e-11)
                << Name(part.kind) << " block " << block << " head " << h;
          }
        }
      }
    }
  }
}

TEST(AttentionParts, AreThoseThatThereAre) {
  const auto names = [](const char* golden) {
    const auto checkpoint = model::TextCheckpoint::Open(TextGoldenFolder(golden));
    std::string all;
    for (const AttentionPart& part : FindParts(checkpoint)) all += std::string(Name(part.kind)) + " ";
    return all;
  };
  EXPECT_EQ(names("bert"), "encoder ");
  EXPECT_EQ(names("gpt2"), "decoder ");
  EXPECT_EQ(names("t5_encoder"), "encoder ");
  EXPECT_EQ(names("marian"), "encoder decoder cross ");
}

// Which norm precedes a layer.
TEST(AttentionParts, KnowTheNormBefore) {
  const Pass bert("bert"), marian("marian"), t5("t5"), gpt2("gpt2");
  const AttentionWeights first_of_bert = ReadAttention(bert.parts[0], 0);
  EXPECT_EQ(first_of_bert.norm, TokenNorm::kLayerNorm);  // of the embeddings
  EXPECT_TRUE(first_of_bert.norm_is_stream);
  EXPECT_EQ(ReadAttention(marian.parts[0], 0).norm, TokenNorm::kNone);
  EXPECT_EQ(ReadAttention(marian.parts[0], 1).norm, TokenNorm::kLayerNorm);
  const AttentionWeights cross = ReadAttention(marian.parts[2], 0);
  EXPECT_TRUE(cross.norm_is_stream);
  EXPECT_EQ(cross.source->norm, TokenNorm::kLayerNorm);
  const AttentionWeights t5_cross = ReadAttention(t5.parts[2], 1);
  EXPECT_EQ(t5_cross.norm, TokenNorm::kRmsNorm);
  EXPECT_EQ(t5_cross.source->norm, TokenNorm::kRmsNorm);
  EXPECT_FALSE(t5_cross.norm_is_stream);
  EXPECT_FALSE(t5_cross.output_is_centred);
  EXPECT_TRUE(t5_cross.beta.empty());
  EXPECT_FALSE(ReadAttention(gpt2.parts[0], 0).norm_is_stream);
  EXPECT_THROW(ReadAttention(marian.parts[2], 2), Error);
}

}  // namespace
}  // namespace qkv::inspect
