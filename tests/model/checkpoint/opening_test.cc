// Models whose files are missing, dangling, replaced or truncated while they are read.
#include "qkv/model/checkpoint/opening.h"

#include <gtest/gtest.h>

#include "qkv/model/model.h"
#include "qkv/model/sequence/sequence_model.h"
#include "tests/support/checkpoints.h"
#include "tests/support/errors.h"
#include "tests/support/goldens.h"

namespace qkv::model {
namespace {

namespace fs = std::filesystem;

// A copy of a golden model of the test's own.
void CopyModel(const std::string& golden, const fs::path& to) {
  fs::create_directories(to);
  for (const auto& entry : fs::directory_iterator(GoldenFolder(golden))) {
    if (entry.path().filename() != "expected.safetensors") fs::copy(entry.path(), to / entry.path().filename());
  }
}

class Opening : public testing::Test {
 protected:
  std::string OpenError(const ModelHints& given = {}) const {
    return ErrorMessage([&] { Checkpoint::Open(model_, given); });
  }

  const TemporaryFolder folder_;
  const fs::path model_ = folder_ / "model";
};

TEST_F(Opening, WithoutAConfigHeadsAreNotGuessed) {
  for (const char* golden : {"hf_vit", "timm_vit"}) {
    fs::remove_all(model_);
    CopyModel(golden, model_);
    const VitConfig c = Checkpoint::Open(model_).description.config;
    fs::remove(model_ / "config.json");
    EXPECT_NE(OpenError().find("--heads N"), std::string::npos) << OpenError();
    EXPECT_EQ(Checkpoint::Open(model_, {.heads = c.block.attention.heads}).description.config.block.attention.heads,
              c.block.attention.heads);
    EXPECT_NE(OpenError({.heads = 5}).find("do not divide"), std::string::npos) << OpenError({.heads = 5});
  }
}

TEST_F(Opening, HeadsThatTheFilesTellNeedNotBeGiven) {
  CopyModel("timm_qk_norm", model_);
  const int64_t heads = Checkpoint::Open(model_).description.config.block.attention.heads;
  EXPECT_NE(OpenError({.heads = heads + 1}).find("contradicts"), std::string::npos);
  fs::remove(model_ / "config.json");
  EXPECT_EQ(Checkpoint::Open(model_).description.config.block.attention.heads, heads);
  EXPECT_NE(OpenError({.heads = heads + 1}).find("contradicts"), std::string::npos);
}

// Other heads than those of the kept layers.
TEST_F(Opening, HeadsThatAreGivenAreTheCachesToo) {
  CopyModel("timm_vit", model_);
  fs::remove(model_ / "config.json");
  const Cache cache{folder_ / "cache", {}, std::chrono::nanoseconds(0)};
  const Tensor<float> pixels = Sampler(1).Normal<float>({1, 3, 24, 24});
  const auto logits = [&](int64_t heads) {
    return Model(Checkpoint::Open(model_, {.heads = heads}), {}, cache).Logits(pixels);
  };
  EXPECT_NE(logits(3)[0], logits(2)[0]);
}

TEST_F(Opening, ADanglingLinkIsNoAbsentFile) {
  for (const char* name : {"config.json", "preprocessor_config.json"}) {
    fs::remove_all(model_);
    CopyModel("hf_vit", model_);
    fs::remove(model_ / name);
    fs::create_symlink("nowhere", model_ / name);
    EXPECT_NE(OpenError().find(name), std::string::npos) << OpenError();
    EXPECT_NE(OpenError().find("a link to a file that is missing"), std::string::npos) << OpenError();
  }
  fs::remove_all(model_);
  CopyModel("hf_vit_sharded", model_);
  fs::create_symlink("nowhere", model_ / "model.safetensors");
  EXPECT_NE(OpenError().find("model.safetensors"), std::string::npos) << OpenError();
}

// As `convert --force` does it, in the middle of opening.
TEST_F(Opening, AFolderThatIsExchangedIsOpenedOnceMore) {
  CopyModel("timm_vit", model_);
  const fs::path other = folder_ / "other";
  CopyModel("timm_qk_norm", other);
  const io::Json expected = io::ReadJson(other / "config.json");
  struct Opened {
    io::Json config;
    std::shared_ptr<const io::SafeTensors> tensors;
  };
  int exchanges = 1;
  const auto open = [&] {
    Opened opened;
    opened.tensors = std::make_shared<const io::SafeTensors>(io::SafeTensors::Open(model_));
    if (exchanges-- > 0) ExchangeFolders(other, model_);
    opened.config = io::ReadJson(model_ / "config.json");
    return opened;
  };
  const Opened opened = OpenWhole(model_, open);
  EXPECT_EQ(opened.config, expected);
  EXPECT_NE(opened.tensors->Find("blocks.0.attn.q_norm.weight"), nullptr);
  exchanges = 2;
  EXPECT_NE(ErrorMessage([&] { OpenWhole(model_, open); }).find("replaced the model"), std::string::npos);
}

TEST_F(Opening, AFileThatIsExchangedIsOpenedOnceMore) {
  CopyModel("timm_vit", model_);
  bool first = true;
  const auto open = [&] {
    Checkpoint checkpoint = Checkpoint::Open(model_);
    if (std::exchange(first, false)) WriteFile(model_ / "model.safetensors", ReadFile(model_ / "model.safetensors"));
    return checkpoint;
  };
  const Checkpoint checkpoint = OpenWhole(model_, open);
  EXPECT_EQ(ReadFileStamp(model_ / "model.safetensors"), checkpoint.tensors->files()[0].mapped.stamp());
}

TEST_F(Opening, WeightsThatBecomeShorterAreNamed) {
  CopyModel("timm_vit", model_);
  const Checkpoint checkpoint = Checkpoint::Open(model_);
  fs::resize_file(model_ / "model.safetensors", 4096);
  for (const std::string& message : {ErrorMessage([&] { Model{checkpoint}; }),
                                     ErrorMessage([&] { ReadTensor<double>(checkpoint, "norm.weight"); })}) {
    EXPECT_NE(message.find("model.safetensors: the file was changed"), std::string::npos) << message;
  }
}

TEST_F(Opening, AMappedCacheThatBecomesShorterIsNamed) {
  CopyModel("timm_vit", model_);
  const Cache cache{folder_ / "cache", {}, std::chrono::nanoseconds(0)};
  Model::Load(model_, {}, cache);
  const Model model = Model::Load(model_, {}, cache);
  const Tensor<float> pixels({1, 3, 24, 24});
  model.Logits(pixels);
  const fs::path kept = CacheFile(Checkpoint::Open(model_), {}, cache.folder);
  fs::resize_file(kept, fs::file_size(kept) - 4096);
  const std::string message = ErrorMessage([&] { model.Logits(pixels); });
  EXPECT_NE(message.find(kept.string() + ": the file was changed"), std::string::npos) << message;
}

}  // namespace
}  // namespace qkv::model
