#include "qkv/app/vectors/embed.h"

#include <gtest/gtest.h>

#include "qkv/app/open/open.h"
#include "qkv/core/file.h"
#include "qkv/io/npy.h"
#include "qkv/io/safetensors.h"
#include "tests/support/files.h"

namespace qkv::app {
namespace {

class Embedded : public testing::Test {
 protected:
  std::vector<Embedding> Run(Pooling pooling) {
    std::vector<Embedding> all;
    EXPECT_EQ(Embed(model_, images_, {.pooling = pooling},
                    [&](auto results) { all.insert(all.end(), results.begin(), results.end()); }),
              0);
    return all;
  }

  const model::Model model_ = LoadModel({});
  const ImageList images_ = CollectImages({(SourceFolder() / "examples/digits/1-black.png").string(),
                                           (SourceFolder() / "examples/digits/5-white.png").string()},
                                          {});
  const int64_t width_ = model_.config().block.width, tokens_ = model_.config().tokens();
};

TEST_F(Embedded, HasOneJsonForm) {
  EXPECT_EQ(ToJson(Embedding{"a", Shape({3}), {1, 2, 3}}), io::Json::parse(R"({"path": "a", "embedding": [1, 2, 3]})"));
  EXPECT_EQ(ToJson(Embedding{"b", Shape({2, 2}), {1, 2, 3, 4}}),
            io::Json::parse(R"({"path": "b", "tokens": [[1, 2], [3, 4]]})"));
}

TEST_F(Embedded, PoolsTheTokens) {
  const std::vector<Embedding> tokens = Run(Pooling::kTokens), mean = Run(Pooling::kMean);
  ASSERT_EQ(tokens.size(), 2u);
  EXPECT_EQ(tokens[0].shape, Shape({tokens_, width_}));
  EXPECT_EQ(mean[0].shape, Shape({width_}));
  const int64_t prefix = model_.config().prefix();
  for (size_t i = 0; i < 2; ++i) {
    for (int64_t d = 0; d < width_; ++d) {
      double sum = 0;
      for (int64_t n = prefix; n < tokens_; ++n) sum += tokens[i].values[static_cast<size_t>(n * width_ + d)];
      const double expected = sum / static_cast<double>(tokens_ - prefix);
      // N roundings of a sum of values of a few units.
      ASSERT_NEAR(mean[i].values[static_cast<size_t>(d)], expected, 1e-5) << i << " " << d;
    }
  }
  if (!model_.config().class_token) return;
  const std::vector<Embedding> cls = Run(Pooling::kClassToken);
  EXPECT_TRUE(std::equal(cls[1].values.begin(), cls[1].values.end(), tokens[1].values.begin()));
}

TEST_F(Embedded, IsWrittenAsOneArray) {
  const TemporaryFolder folder;
  const std::vector<Embedding> all = Run(Pooling::kModel);
  for (const char* name : {"e.npy", "e.safetensors"}) {
    EmbeddingTable table((folder / name).string(), {"vit", "0123456789abcdef", "model", "24x24"});
    EXPECT_THROW(table.Save(), Error) << "nothing was added";
    for (const Embedding& embedding : all) table.Add(embedding);
    EXPECT_THROW(table.Add({"c", Shape({1}), {0}}), Error);
    table.Save();
    for (const std::string& file : table.outputs()) EXPECT_TRUE(std::filesystem::exists(file)) << file;
  }
  const Tensor<float> npy = io::ReadNpy<float>(folder / "e.npy");
  const auto file = io::SafeTensors::Open(folder / "e.safetensors");
  const Tensor<float> stored = io::Convert<float>(*file.Find("embeddings"));
  ASSERT_EQ(npy.shape(), Shape({2, all[0].shape[0]}));
  ASSERT_EQ(stored.shape(), npy.shape());
  for (int64_t i = 0; i < npy.size(); ++i) ASSERT_EQ(npy[i], stored[i]);
  EXPECT_TRUE(std::equal(all[1].values.begin(), all[1].values.end(), npy.view().row(1)));
  EXPECT_EQ(ReadFile(folder / "e.paths.txt"), all[0].path + "\n" + all[1].path + "\n");
  EXPECT_THROW(EmbeddingTable("e.txt", {}), Error);
  EXPECT_EQ(io::ReadJson(folder / "e.model.json"), io::ParseJson(file.metadata().at("source"), "metadata"));
}

TEST_F(Embedded, PoolingHasNames) {
  EXPECT_EQ(ParsePooling("cls", "--pool"), Pooling::kClassToken);
  EXPECT_THROW(ParsePooling("max", "--pool"), Error);
}

}  // namespace
}  // namespace qkv::app
