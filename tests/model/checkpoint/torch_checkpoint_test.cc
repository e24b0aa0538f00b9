// Models whose weights are PyTorch files: the same tensors as in safetensors, wrapped as training scripts wrap them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "qkv/io/safetensors.h"
#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/model/layout/bound_tensor.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"
#include "tests/support/torch_files.h"

namespace qkv::model {
namespace {

namespace fs = std::filesystem;

void ExpectSame(const Checkpoint& read, const Checkpoint& expected) {
  ASSERT_EQ(read.bound.size(), expected.bound.size());
  for (const BoundTensor& bound : expected.bound) {
    SCOPED_TRACE(bound.spec.name);
    const BoundTensor* found = read.Find(bound.spec.name);
    ASSERT_NE(found, nullptr);
    ASSERT_EQ(found->parts.size(), bound.parts.size());
    for (size_t i = 0; i < bound.parts.size(); ++i) {
      EXPECT_TRUE(std::ranges::equal(found->parts[i]->bytes, bound.parts[i]->bytes));
    }
  }
}

bool Mentions(const Checkpoint& checkpoint, std::string_view part) {
  return std::ranges::any_of(checkpoint.description.assumptions,
                             [&](const std::string& text) { return text.find(part) != text.npos; });
}

TEST(TorchCheckpoint, FoldersMayHoldPytorchModelBin) {
  for (const char* golden : {"hf_vit", "hf_vit_bf16", "timm_vit", "vit_pytorch_vit"}) {
    SCOPED_TRACE(golden);
    const TemporaryFolder folder;
    for (const char* file : {"config.json", "preprocessor_config.json"}) {
      if (fs::exists(GoldenFolder(golden) / file)) fs::copy_file(GoldenFolder(golden) / file, folder / file);
    }
    TorchFileWriter file;
    file.Add("", io::SafeTensors::Open(GoldenFolder(golden)).tensors());
    file.Write(folder / "pytorch_model.bin");
    const Checkpoint read = Checkpoint::Open(folder.path()), expected = Checkpoint::Open(GoldenFolder(golden));
    ExpectSame(read, expected);
    EXPECT_EQ(read.description.assumptions, expected.description.assumptions);
    EXPECT_EQ(read.tensors->files().size(), 1u);
  }
}

// A run of timm's training script: the weights of timm_vit, and how the script was called.
class TrainingRun : public testing::Test {
 protected:
  void Write(const char* file, const io::Json& args, std::string_view key = "args") {
    TorchFileWriter writer;
    writer.Add("state_dict", golden_.tensors());
    writer.AddEntry("arch", TorchFileWriter::Value("vit_base_patch16_224"));
    if (!args.is_null()) writer.AddEntry(key, TorchFileWriter::Namespace(args));
    writer.Write(folder_ / file);
  }
  static io::Json Args() {
    return {
        {"model", "vit_base_patch16_224"},
        {"num_classes", 7},
        {"img_size", nullptr},
        {"mean", {0.1, 0.2, 0.3}},
        {"std", {0.4, 0.5, 0.6}},
        {"crop_pct", 0.75},
        {"interpolation", "bilinear"},
        {"model_kwargs", {{"embed_dim", 24}, {"depth", 2}, {"num_heads", 3}, {"patch_size", 8}, {"drop_rate", 0.1}}}};
  }
  void ExpectAsCalled(const Checkpoint& read) {
    ExpectSame(read, Checkpoint::Open(GoldenFolder("timm_vit")));
    const Description& d = read.description;
    EXPECT_EQ(d.config.block.attention.heads, 3);
    EXPECT_EQ(d.config.image_height, 24);
    EXPECT_EQ(d.preprocess.mean, (std::vector<float>{0.1f, 0.2f, 0.3f}));
    EXPECT_EQ(d.preprocess.std, (std::vector<float>{0.4f, 0.5f, 0.6f}));
    EXPECT_EQ(d.preprocess.filter, image::Filter::kBilinear);
    EXPECT_EQ(d.preprocess.resize_height, 32);  // 24 / 0.75
    EXPECT_TRUE(Mentions(read, "as its training script was called: model \"vit_base_patch16_224\""));
    EXPECT_TRUE(Mentions(read, "crop_pct 0.75"));
  }

  TemporaryFolder folder_;
  io::SafeTensors golden_ = io::SafeTensors::Open(GoldenFolder("timm_vit"));
};

TEST_F(TrainingRun, ItsArgumentsDescribeTheModel) {
  Write("model_best.pth.tar", Args());
  ExpectAsCalled(Checkpoint::Open(folder_ / "model_best.pth.tar"));
}

TEST_F(TrainingRun, OfItsFolderTheBestIsReadThenTheLast) {
  Write("last.pth.tar", Args());
  Write("checkpoint-3.pth.tar", nullptr);
  EXPECT_TRUE(Mentions(Checkpoint::Open(folder_.path()), "last.pth.tar is read"));
  Write("model_best.pth.tar", Args());
  const Checkpoint read = Checkpoint::Open(folder_.path());
  ExpectAsCalled(read);
  EXPECT_TRUE(Mentions(read, "model_best.pth.tar is read"));
}

TEST_F(TrainingRun, ArgsYamlSaysWhatTheFileDoesNot) {
  Write("model_best.pth.tar", nullptr);
  WriteFile(
      folder_ / "args.yaml",
      "aa: rand-m9\nmodel: vit_base_patch16_224\nnum_classes: 7\nimg_size: null\nmean:\n- 0.1\n- 0.2\n- 0.3\n"
      "std: [0.4, 0.5, 0.6]\ncrop_pct: 0.75\ninterpolation: bilinear\nmodel_kwargs:\n  embed_dim: 24\n  depth: 2\n"
      "  num_heads: 3\n  patch_size: 8\n");
  ExpectAsCalled(Checkpoint::Open(folder_.path()));
  WriteFile(folder_ / "args.yaml", "model: [");
  EXPECT_NE(ErrorMessage([&] { Checkpoint::Open(folder_.path()); }).find("args.yaml"), std::string::npos);
  WriteFile(folder_ / "args.yaml", "just text");
  EXPECT_NE(ErrorMessage([&] { Checkpoint::Open(folder_.path()); }).find("expected keys and values"),
            std::string::npos);
  std::string bomb = "a: &a [1,1,1,1,1,1,1,1,1,1]\nb: &b [";
  for (int i = 0; i < 200; ++i) bomb += "*a,";
  bomb += "1]\nc: [";
  for (int i = 0; i < 200; ++i) bomb += "*b,";
  WriteFile(folder_ / "args.yaml", bomb + "1]\n");
  EXPECT_NE(ErrorMessage([&] { Checkpoint::Open(folder_.path()); }).find("more than"), std::string::npos);
  std::string long_text = "a: &a " + std::string(100'000, 'x') + "\nb: [";
  for (int i = 0; i < 20; ++i) long_text += "*a,";
  WriteFile(folder_ / "args.yaml", long_text + "1]\n");
  EXPECT_NE(ErrorMessage([&] { Checkpoint::Open(folder_.path()); }).find("more than"), std::string::npos);
}

TEST_F(TrainingRun, ADynamicModelIsShownImagesOfItsSize) {
  io::Json args = Args();
  args["img_size"] = 16;
  args["crop_mode"] = "squash";
  args["model_kwargs"]["dynamic_img_size"] = true;
  Write("model_best.pth.tar", args);
  const Checkpoint read = Checkpoint::Open(folder_ / "model_best.pth.tar");
  EXPECT_EQ(read.description.config.image_height, 24);  // of the positions
  EXPECT_EQ(read.description.preprocess.crop_height, 16);
  EXPECT_EQ(read.description.preprocess.resize, image::Preprocess::Resize::kExact);
  EXPECT_TRUE(Mentions(read, "img_size 16"));
}

TEST_F(TrainingRun, TheCallersWordGoesFirstAndOtherScriptsSayNothing) {
  Write("model_best.pth.tar", Args());
  ModelHints given{.mean = {0.5}, .crop_pct = 1};
  EXPECT_EQ(Checkpoint::Open(folder_.path(), given).description.preprocess.mean,
            (std::vector<float>{0.5f, 0.5f, 0.5f}));
  EXPECT_EQ(Checkpoint::Open(folder_.path(), given).description.preprocess.resize_height, 24);
  io::Json args = Args();
  args["model"] = "vit_of_my_own";
  Write("model_best.pth.tar", args);
  EXPECT_NE(ErrorMessage([&] { Checkpoint::Open(folder_.path()); }).find("--heads"), std::string::npos);
  args["model"] = "vit_base_r50_s16_224";
  Write("model_best.pth.tar", args);
  EXPECT_NE(ErrorMessage([&] { Checkpoint::Open(folder_.path()); }).find("HybridEmbed"), std::string::npos);
}

TEST(TorchCheckpoint, WrappersAreSeenThrough) {
  const TemporaryFolder folder;
  fs::copy_file(GoldenFolder("timm_vit") / "config.json", folder / "config.json");
  const io::SafeTensors golden = io::SafeTensors::Open(GoldenFolder("timm_vit"));
  std::vector<io::StoredTensor> zeros = golden.tensors();
  const std::vector<std::byte> zero(golden.bytes());
  for (io::StoredTensor& tensor : zeros) tensor.bytes = std::span(zero).first(tensor.bytes.size());
  TorchFileWriter file;
  file.Add("state_dict", zeros, "module.");
  file.Add("state_dict_ema", golden.tensors(), "module.");
  file.Write(folder / "last.pth");

  const Checkpoint read = Checkpoint::Open(folder / "last.pth");
  ExpectSame(read, Checkpoint::Open(GoldenFolder("timm_vit")));
  EXPECT_TRUE(Mentions(read, "the weights are those of state_dict_ema"));
  EXPECT_TRUE(Mentions(read, "--state-dict chooses"));
  EXPECT_TRUE(Mentions(read, "all tensors are named module.…"));
  const Checkpoint other = Checkpoint::Open(folder / "last.pth", {.state_dict = "state_dict"});
  EXPECT_EQ(ReadTensor<float>(other, "norm.weight")[0], 0);
}

}  // namespace
}  // namespace qkv::model
