// Tensors that a model's definition makes copies of others: equal ones are dropped, a head of other values is used as
// by transformers 5, and all other differences are refused by name.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "qkv/core/file.h"
#include "qkv/io/safetensors.h"
#include "qkv/io/weights.h"
#include "qkv/model/checkpoint/text_checkpoint.h"
#include "qkv/model/layout/positions.h"
#include "qkv/model/sequence/sequence_model.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"

namespace qkv::model {
namespace {

// A golden with one more tensor, or another one in its place.
class WithTensor {
 public:
  WithTensor(const std::string& golden, const std::string& name, const Tensor<float>& value) {
    const std::filesystem::path from = TextGoldenFolder(golden);
    const auto file = io::SafeTensors::Open(from / "model.safetensors");
    std::vector<io::StoredTensor> tensors(file.tensors().begin(), file.tensors().end());
    std::erase_if(tensors, [&](const io::StoredTensor& tensor) { return tensor.name == name; });
    tensors.push_back(io::Stored<float>(name, value));
    WriteFile(folder_ / "config.json", io::ReadJson(from / "config.json").dump());
    io::WriteSafeTensors(folder_ / "model.safetensors", tensors);
  }
  const std::filesystem::path& path() const { return folder_.path(); }
  std::string Message() const {
    return ErrorMessage([&] { TextCheckpoint::Open(path()); });
  }

 private:
  TemporaryFolder folder_;
};

Tensor<float> Read(const std::string& golden, const std::string& name, float factor = 1) {
  const auto file = io::SafeTensors::Open(TextGoldenFolder(golden) / "model.safetensors");
  Tensor<float> values = io::Convert<float>(*file.Find(name));
  for (float& value : values.span()) value *= factor;
  return values;
}

// Logits of a decoder; one that cross-attends reads a source of zeros and ones.
Tensor<float> Logits(const std::filesystem::path& folder) {
  const TextCheckpoint checkpoint = TextCheckpoint::Open(folder);
  const SequenceModel<float> decoder(*checkpoint.description.decoder, checkpoint.decoder);
  const SequenceConfig& c = decoder.config();
  const Tensor<int32_t> ids = [] {
    Tensor<int32_t> some({1, 3});
    some[0] = 5, some[1] = 6, some[2] = 7;
    return some;
  }();
  Tensor<float> logits({1, 3, c.outputs});
  Arena arena;
  Source<float> source;
  SequenceInputs<float> inputs;
  if (c.block.cross) {
    Tensor<float> tokens({1, 2, c.block.width});
    for (int64_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<float>(i % 2);
    Tensor<int64_t> lengths({1});
    lengths[0] = 2;
    decoder.ReadSource(tokens, lengths, arena, &source);
    inputs.source = &source;
  }
  decoder.Forward(ids, inputs, arena, {.logits = logits});
  return logits;
}

struct TiedHead {
  std::string golden, table, head;
};

class TiedHeads : public testing::TestWithParam<TiedHead> {};
INSTANTIATE_TEST_SUITE_P(Families, TiedHeads,
                         testing::Values(TiedHead{"llama_tied", "model.embed_tokens.weight", "lm_head.weight"},
                                         TiedHead{"t5", "shared.weight", "lm_head.weight"}),
                         [](const auto& head) { return head.param.golden; });

TEST_P(TiedHeads, AnEqualCopyIsDropped) {
  const auto& [golden, table, head] = GetParam();
  const WithTensor copied(golden, head, Read(golden, table));
  EXPECT_TRUE(TextCheckpoint::Open(copied.path()).description.decoder->tied_head);
  const Tensor<float> expected = Logits(TextGoldenFolder(golden)), logits = Logits(copied.path());
  for (int64_t i = 0; i < expected.size(); ++i) ASSERT_EQ(logits[i], expected[i]);
}

TEST_P(TiedHeads, AHeadOfOtherValuesIsUsed) {
  const auto& [golden, table, head] = GetParam();
  const WithTensor doubled(golden, head, Read(golden, table, 2));
  const std::vector<std::string> assumptions = TextCheckpoint::Open(doubled.path()).description.assumptions;
  ASSERT_EQ(assumptions.size(), 1u);
  EXPECT_TRUE(assumptions[0].starts_with("warning: " + head + " is used")) << assumptions[0];
  const Tensor<float> expected = Logits(TextGoldenFolder(golden)), logits = Logits(doubled.path());
  for (int64_t i = 0; i < expected.size(); ++i) ASSERT_EQ(logits[i], 2 * expected[i]) << "exact in binary";
}

struct Copy {
  std::string golden, name, of;
};

class Copies : public testing::TestWithParam<Copy> {};
INSTANTIATE_TEST_SUITE_P(
    Families, Copies,
    testing::Values(Copy{"t5", "encoder.embed_tokens.weight", "shared.weight"},
                    Copy{"t5", "decoder.embed_tokens.weight", "shared.weight"},
                    Copy{"t5_encoder", "encoder.embed_tokens.weight", "shared.weight"},
                    Copy{"marian_safetensors", "model.encoder.embed_tokens.weight", "model.shared.weight"},
                    Copy{"marian_safetensors", "model.decoder.embed_tokens.weight", "model.shared.weight"},
                    Copy{"marian_safetensors", "lm_head.weight", "model.shared.weight"}),
    [](const auto& copy) {
      std::string name = copy.param.golden + "_" + copy.param.name;
      for (char& c : name) c = c == '.' ? '_' : c;
      return name;
    });

TEST_P(Copies, EqualOnesAreDropped) {
  const auto& [golden, name, of] = GetParam();
  EXPECT_EQ(WithTensor(golden, name, Read(golden, of)).Message(), "");
}

TEST_P(Copies, OthersAreRefusedByName) {
  const auto& [golden, name, of] = GetParam();
  const std::string message = WithTensor(golden, name, Read(golden, of, 2)).Message();
  EXPECT_NE(message.find(name + " has other values than " + of), std::string::npos) << message;
}

TEST(ComputedPositionsInFiles, AreComparedWithThoseOfMarian) {
  const std::string golden = "marian_safetensors", name = "model.encoder.embed_positions.weight";
  const SequenceConfig c = *TextCheckpoint::Open(TextGoldenFolder(golden)).description.encoder;
  Tensor<float> positions = ComputedPositions<float>(c);
  EXPECT_EQ(WithTensor(golden, name, positions).Message(), "");
  positions[positions.size() / 2] += 0.01F;
  const std::string message = WithTensor(golden, name, positions).Message();
  EXPECT_NE(message.find(name + " has other values"), std::string::npos) << message;
}

}  // namespace
}  // namespace qkv::model
