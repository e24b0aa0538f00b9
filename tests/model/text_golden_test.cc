// Every golden of tests/golden/text: transformers' tokens, pooled tokens, logits and attention weights of models of
// text, in both precisions.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <vector>

#include "qkv/io/safetensors.h"
#include "qkv/model/checkpoint/text_checkpoint.h"
#include "qkv/model/sequence/sequence_model.h"
#include "tests/support/difference.h"
#include "tests/support/goldens.h"
#include "tests/support/integers.h"

namespace qkv::model {
namespace {

namespace fs = std::filesystem;

template <typename T>
class Results {
 public:
  View<T> Add(const std::string& name, const Shape& shape) {
    return all.emplace(name, Tensor<T>(shape)).first->second.view();
  }
  std::map<std::string, Tensor<T>> all;
};

class TextGolden : public testing::TestWithParam<std::string> {
 protected:
  Tensor<int32_t> Ids(const std::string& name) {
    const io::StoredTensor* const stored = expected_.Find(name);
    return stored ? ReadIntegers<int32_t>(*stored) : Tensor<int32_t>();
  }

  // Requests weights of every block and head.
  template <typename T>
  std::vector<typename Outputs<T>::Attention> Weights(const nn::AttentionConfig& a, int64_t depth,
                                                      const std::string& name, int64_t B, int64_t N, int64_t keys,
                                                      Results<T>* results) {
    std::vector<typename Outputs<T>::Attention> attention;
    for (int64_t block = 0; block < depth; ++block) {
      attention.push_back({block, {0, N, results->Add(fmt::format("{}.{}", name, block), {B, a.heads, N, keys})}});
    }
    return attention;
  }

  // All outputs in T, by their names in the reference.
  template <typename T>
  std::map<std::string, Tensor<T>> Run() {
    const fs::path folder = TextGoldenFolder(GetParam());
    const TextCheckpoint checkpoint = TextCheckpoint::Open(folder);
    const TextDescription& d = checkpoint.description;
    expected_ = io::SafeTensors::Open(folder / "expected.safetensors");
    const Tensor<int32_t> ids = Ids("input_ids"), types = Ids("token_type_ids"), targets = Ids("decoder_input_ids"),
                          shown = Ids("attention_mask");
    const int64_t B = ids.dim(0), N = ids.dim(1);
    Tensor<bool> mask({B, N});
    std::transform(shown.data(), shown.data() + shown.size(), mask.data(), [](int32_t value) { return value != 0; });
    SequenceInputs<T> inputs{.types = types.empty() ? View<const int32_t>() : types.view(), .mask = mask};
    Results<T> results;
    Arena arena;
    Source<T> source;
    const bool pair = d.encoder && d.decoder;
    if (d.encoder) {
      const SequenceModel<T> encoder(*d.encoder, checkpoint.encoder);
      const SequenceConfig& c = encoder.config();
      SequenceOutputs<T> outputs{.tokens = results.Add(pair ? "encoder_tokens" : "tokens", {B, N, c.block.width})};
      if (c.pooler_width > 0) outputs.pooled = results.Add("pooled", {B, c.pooler_width});
      outputs.attention =
          Weights<T>(c.block.attention, c.depth, pair ? "encoder_attention" : "attention", B, N, N, &results);
      encoder.Forward(ids, inputs, arena, outputs);
      if (pair) {
        Tensor<int64_t> lengths({B});
        for (int64_t b = 0; b < B; ++b)
          lengths.data()[b] = std::count(mask.view().row(b), mask.view().row(b) + N, true);
        const SequenceModel<T> decoder(*d.decoder, checkpoint.decoder);
        decoder.ReadSource(outputs.tokens, lengths, arena, &source);
        Decode(decoder, targets, {.source = &source}, N, &results);
      }
    } else {
      Decode(SequenceModel<T>(*d.decoder, checkpoint.decoder), ids, inputs, N, &results);
    }
    for (auto& [name, tensor] : results.all) HidePadding(name, mask, pair, &tensor);
    return std::move(results.all);
  }

  io::SafeTensors expected_;

 private:
  template <typename T>
  void Decode(const SequenceModel<T>& decoder, const Tensor<int32_t>& ids, const SequenceInputs<T>& inputs,
              int64_t source, Results<T>* results) {
    const SequenceConfig& c = decoder.config();
    const int64_t B = ids.dim(0), N = ids.dim(1);
    SequenceOutputs<T> outputs{.logits = results->Add("logits", {B, N, c.outputs}),
                               .tokens = results->Add("tokens", {B, N, c.block.width})};
    outputs.attention = Weights<T>(c.block.attention, c.depth, "attention", B, N, N, results);
    if (c.block.cross) {
      outputs.cross_attention = Weights<T>(*c.block.cross, c.depth, "cross_attention", B, N, source, results);
    }
    Arena arena;
    decoder.Forward(ids, inputs, arena, outputs);
  }

  // Sets what belongs to padded tokens to zero, as the generator does.
  template <typename T>
  void HidePadding(const std::string& name, const Tensor<bool>& mask, bool pair, Tensor<T>* tensor) {
    const bool of_source = !pair || name.starts_with("encoder_");
    if (!of_source || name == "pooled") return;
    const int64_t B = mask.dim(0), N = mask.dim(1);
    const bool attention = name.find("attention") != std::string::npos;
    const int64_t heads = attention ? tensor->dim(1) : 1, width = tensor->size() / (B * heads * N);
    for (int64_t row = 0; row < B * heads * N; ++row) {
      if (!mask.view().row(row / (heads * N))[row % N]) std::fill_n(tensor->data() + row * width, width, T(0));
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Cases, TextGolden, testing::ValuesIn(TextGoldenNames()),
                         [](const auto& name) { return name.param; });

// The design's criterion: four times the original's own float error, and a rounding of the greatest entry.
TEST_P(TextGolden, FloatAgreesAsFarAsTheOriginalsOwnFloatDoes) {
  for (const auto& [name, ours] : Run<float>()) {
    const auto single = io::Convert<double>(*expected_.Find(name));
    const auto exact = io::Convert<double>(*expected_.Find(name + ".float64"));
    EXPECT_LE(MaxDifference(ours, exact), 4 * MaxDifference(single, exact) + 1e-6 * MaxAbs(exact)) << name;
  }
}

// In double the arithmetic is the original's but for the order of sums.
TEST_P(TextGolden, DoubleAgreesToTheLastDigits) {
  for (const auto& [name, ours] : Run<double>()) {
    const auto exact = io::Convert<double>(*expected_.Find(name + ".float64"));
    EXPECT_LE(MaxDifference(ours, exact), 1e-12 * std::max(1.0, MaxAbs(exact))) << name;
  }
}

}  // namespace
}  // namespace qkv::model
