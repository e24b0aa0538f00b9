// The cache gives the text model that was built, to the bit, or none at all.
#include "qkv/model/sequence/text_cache.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "qkv/core/file.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"

namespace qkv::model {
namespace {

namespace fs = std::filesystem;

struct TextTestCache {
  TemporaryFolder folder;
  std::string notes;
  bool verify = false;

  TextModel Load(const fs::path& path, const BuildOptions& options = {}) {
    notes.clear();
    const auto note = [this](const std::string& text) { notes += text + "\n"; };
    return BuildCached(TextCheckpoint::Open(path), options,
                       {folder / "made", note, std::chrono::nanoseconds(0), verify});
  }
  fs::path File(const fs::path& path, const BuildOptions& options = {}) {
    return CacheFile(TextCheckpoint::Open(path), options, folder / "made");
  }
};

// Vectors of an encoder's tokens, or logits.
Tensor<float> AnswerOf(const TextModel& model) {
  const bool pair = model.has_encoder() && model.has_decoder();
  const SequenceConfig& reader = (model.has_encoder() ? model.encoder() : model.decoder()).config();
  Tensor<int32_t> ids({2, 5}), written({2, 4});
  for (int32_t i = 0; i < ids.size(); ++i) ids[i] = (7 * i + 3) % static_cast<int32_t>(reader.vocabulary);
  for (int32_t i = 0; i < written.size(); ++i) written[i] = i;
  TextInputs inputs{.ids = ids};
  if (pair) inputs.decoder_ids = written;
  const int64_t N = pair ? 4 : 5;
  TextWorkspace workspace;
  Tensor<float> out({2, N, model.has_decoder() ? model.decoder().config().outputs : reader.block.width});
  TextOutputs outputs;
  (model.has_decoder() ? outputs.logits : outputs.tokens) = out;
  model.Forward(inputs, workspace, outputs);
  return out;
}

bool HaveSameBits(const Tensor<float>& a, const Tensor<float>& b) {
  return a.shape() == b.shape() && std::memcmp(a.data(), b.data(), static_cast<size_t>(a.size()) * sizeof(float)) == 0;
}

class CacheOfTextModels : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Goldens, CacheOfTextModels,
                         testing::Values("bert", "distilbert", "roberta", "gpt2", "llama", "llama_scaled", "qwen3",
                                         "t5", "t5_gated", "t5_encoder", "marian", "marian_trained"),
                         [](const auto& name) { return name.param; });

TEST_P(CacheOfTextModels, AnswerWithTheSameBits) {
  const BuildOptions variants[] = {{},
                                   {.precision = simd::Precision::kBfloat16},
                                   {.precision = simd::Precision::kInt8},
                                   {.fold_norms = false, .fold_scales = false, .fold_key_value_bias = false}};
  const fs::path folder = TextGoldenFolder(GetParam());
  TextTestCache test;
  for (const BuildOptions& options : variants) {
    const Tensor<float> built = AnswerOf(TextModel::Load(folder, options));
    const fs::path file = test.File(folder, options);
    EXPECT_FALSE(fs::exists(file));
    EXPECT_TRUE(HaveSameBits(AnswerOf(test.Load(folder, options)), built)) << "while it is kept";
    EXPECT_TRUE(fs::exists(file)) << test.notes;
    const FileStamp kept = ReadFileStamp(file);
    test.verify = true;
    const TextModel restored = test.Load(folder, options);
    EXPECT_TRUE(HaveSameBits(AnswerOf(restored), built)) << "from the cache";
    EXPECT_EQ(restored.weight_bytes(), TextModel::Load(folder, options).weight_bytes());
    EXPECT_EQ(test.notes, "");
    EXPECT_EQ(ReadFileStamp(file), kept) << "it was written again";
    test.verify = false;
  }
}

TEST(CacheOfATextModel, IsMadeAnewForAnotherConfiguration) {
  const TemporaryFolder model;
  for (const char* name : {"config.json", "model.safetensors"}) {
    fs::copy_file(TextGoldenFolder("gpt2") / name, model / name);
  }
  TextTestCache test;
  const Tensor<float> before = AnswerOf(test.Load(model.path()));
  std::string config = ReadFile(model / "config.json");
  const std::string from = "\"layer_norm_epsilon\": 1e-05";
  const size_t at = config.find(from);
  ASSERT_NE(at, std::string::npos) << config;
  config.replace(at, from.size(), "\"layer_norm_epsilon\": 0.1");
  WriteFile(model / "config.json", config);
  const Tensor<float> after = AnswerOf(test.Load(model.path()));
  EXPECT_NE(test.notes.find("other files"), std::string::npos) << test.notes;
  EXPECT_FALSE(HaveSameBits(after, before));
}

// Whatever happened to the file: the answer is right, the reason is noted, and the next start finds a good one.
TEST(BrokenCacheOfATextModel, IsRefusedAndMadeAnew) {
  const fs::path folder = TextGoldenFolder("marian_trained");
  TextTestCache test;
  const Tensor<float> built = AnswerOf(test.Load(folder));
  const fs::path file = test.File(folder);
  const std::string good = ReadFile(file);
  std::vector<std::string> broken{"", "foreign", good.substr(0, 100), good.substr(0, good.size() - 1), good + "x"};
  const auto replaced = [&](const std::string& from, const std::string& to) {
    broken.push_back(good);
    const size_t at = broken.back().find(from);
    ASSERT_NE(at, std::string::npos) << from;
    broken.back().replace(at, from.size(), to);
  };
  replaced("\"decoder.blocks.0.cross.query.panels\"", "\"decoder.blocks.0.cross.quiry.panels\"");  // one is missing
  replaced("\"encoder.tokens\"", "\"encoder.takens\"");
  replaced("\"decoder.tokens\"", "\"encoder.takens\"");
  for (const std::string& bytes : broken) {
    WriteFile(file, bytes);
    EXPECT_TRUE(HaveSameBits(AnswerOf(test.Load(folder)), built));
    EXPECT_NE(test.notes.find("not used"), std::string::npos) << test.notes;
    EXPECT_EQ(ReadFile(file), good);
  }
}

// Layers of another model under the right name.
TEST(BrokenCacheOfATextModel, LayersOfAnotherModelAreRefused) {
  TextTestCache test;
  const fs::path one = TextGoldenFolder("gpt2");
  const TextModel other = TextModel::Load(TextGoldenFolder("bert"));
  const Tensor<float> built = AnswerOf(test.Load(one));
  io::WriteSafeTensors(test.File(one), other.Store({}), {}, kAlignment);
  EXPECT_TRUE(HaveSameBits(AnswerOf(test.Load(one)), built));
  EXPECT_NE(test.notes.find("not used"), std::string::npos) << test.notes;
  // Its shapes alone give it away.
  const auto file = [&] { return std::make_shared<const io::SafeTensors>(io::SafeTensors::Open(test.File(one))); };
  const TextDescription description = test.Load(one).description();
  io::WriteSafeTensors(test.File(one), other.Store({}), {}, kAlignment);
  EXPECT_THROW(TextModel::Restore(description, {}, file()), Error);
}

}  // namespace
}  // namespace qkv::model
