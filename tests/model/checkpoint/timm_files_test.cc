// Weights of timm's models as others store them: the authors of DINOv2, DINOv3 and EVA-CLIP, and transformers' wrapper.
// timm's own filters (checkpoint_filter_fn) say which name is which; here goldens are renamed the other way.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "qkv/io/safetensors.h"
#include "qkv/model/model.h"
#include "tests/support/difference.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"
#include "tests/support/goldens.h"

namespace qkv::model {
namespace {

namespace fs = std::filesystem;

std::string Replaced(std::string text, std::string_view from, std::string_view to) {
  if (const size_t at = text.find(from); at != text.npos) text.replace(at, from.size(), to);
  return text;
}

// A golden whose tensors get other names, in a folder.
class TimmFiles : public testing::Test {
 protected:
  void Load(const char* golden) {
    name_ = golden;
    golden_ = io::SafeTensors::Open(GoldenFolder(golden));
    tensors_ = golden_.tensors();
  }
  void Rename(std::string_view from, std::string_view to) {
    for (io::StoredTensor& tensor : tensors_) tensor.name = Replaced(tensor.name, from, to);
  }
  Tensor<float>& Add(const std::string& name, Tensor<float> values) {
    Tensor<float>& kept = added_.emplace_back(std::move(values));
    tensors_.push_back(io::Stored<float>(name, kept));
    return kept;
  }
  Tensor<float> Take(const std::string& name) {
    const auto found = std::ranges::find(tensors_, name, &io::StoredTensor::name);
    Tensor<float> values = io::Convert<float>(*found);
    tensors_.erase(found);
    return values;
  }
  void Write(const std::function<void(io::Json*)>& change = {}) {
    io::WriteSafeTensors(folder_ / "model.safetensors", tensors_, {});
    io::Json config = io::ReadJson(GoldenFolder(name_) / "config.json");
    if (change) change(&config);
    WriteFile(folder_ / "config.json", config.dump());
  }
  // The golden's own logits, but for rounding.
  void ExpectSameAnswers() {
    const io::SafeTensors expected = io::SafeTensors::Open(GoldenFolder(name_) / "expected.safetensors");
    const auto logits = io::Convert<double>(*expected.Find("logits.float64"));
    const Tensor<float> ours =
        Model(Checkpoint::Open(folder_.path())).Logits(io::Convert<float>(*expected.Find("pixels")));
    EXPECT_LE(MaxDifference(ours, logits), 1e-5 * MaxAbs(logits));
  }

  std::string name_;
  io::SafeTensors golden_;
  std::vector<io::StoredTensor> tensors_;
  std::deque<Tensor<float>> added_;
  TemporaryFolder folder_;
};

// DINOv3 by its authors: masked biases of keys beside those of queries and values, periods, a mask token.
TEST_F(TimmFiles, Dinov3OfItsAuthors) {
  Load("timm_dinov3");
  Rename("reg_token", "storage_tokens");
  for (const std::string block : {"blocks.0.", "blocks.1."}) {
    const Tensor<float> q = Take(block + "attn.q_bias"), v = Take(block + "attn.v_bias");
    Tensor<float> bias({3 * q.size()}), mask({3 * q.size()});
    std::copy_n(q.data(), q.size(), bias.data());
    std::copy_n(v.data(), v.size(), bias.data() + 2 * q.size());
    Add(block + "attn.qkv.bias", std::move(bias));
    Add(block + "attn.qkv.bias_mask", std::move(mask));
    Rename(block + "gamma_1", block + "ls1.gamma");
    Rename(block + "gamma_2", block + "ls2.gamma");
  }
  Add("rope_embed.periods", Tensor<float>({2}));
  Add("mask_token", Tensor<float>({1, 24}));
  Write();
  ExpectSameAnswers();
  added_[0][24] = 1;  // of a key
  Write();
  const std::string message = ErrorMessage([&] { Checkpoint::Open(folder_.path()); });
  EXPECT_NE(message.find("blocks.0.attn.qkv.bias has biases of keys"), std::string::npos) << message;
}

TEST_F(TimmFiles, Dinov3GatedOfItsAuthors) {
  Load("timm_dinov3_plus");
  Rename("reg_token", "storage_tokens");
  for (const char* block : {"blocks.0.", "blocks.1."}) {
    const std::string name = block;
    Rename(name + "mlp.fc1_g", name + "mlp.w1");
    Rename(name + "mlp.fc1_x", name + "mlp.w2");
    Rename(name + "mlp.fc2", name + "mlp.w3");
  }
  Write();
  ExpectSameAnswers();
}

// DINOv2 with registers by its authors: the class token apart from its position, which timm adds up.
TEST_F(TimmFiles, Dinov2RegistersOfItsAuthors) {
  Load("timm_reg4_noembed");
  Rename("reg_token", "register_tokens");
  Tensor<float> token = Take("cls_token");
  const Tensor<float> positions = Take("pos_embed");
  const int64_t D = token.size();
  Tensor<float> with_token({1, positions.dim(1) + 1, D});
  std::copy_n(positions.data(), positions.size(), with_token.data() + D);
  for (int64_t d = 0; d < D; ++d) {
    with_token[d] = 0.25f * static_cast<float>(d % 5);
    token[d] -= with_token[d];
  }
  Add("cls_token", std::move(token));
  Add("pos_embed", std::move(with_token));
  Add("mask_token", Tensor<float>({1, D}));
  Write();
  ExpectSameAnswers();
}

// EVA-CLIP by its authors: an image encoder of other names beside a text encoder, which is not read.
TEST_F(TimmFiles, EvaClipOfItsAuthors) {
  Load("timm_eva02_projection");
  const std::string block = "blocks.0.";
  Rename(block + "attn.norm", block + "attn.inner_attn_ln");
  Rename(block + "mlp.norm", block + "mlp.ffn_ln");
  Rename(block + "mlp.fc1_g", block + "mlp.w1");
  Rename(block + "mlp.fc1_x", block + "mlp.w2");
  Rename(block + "mlp.fc2", block + "mlp.w3");
  Rename(block + "attn.q_proj.bias", block + "attn.q_bias");
  Rename(block + "attn.v_proj.bias", block + "attn.v_bias");
  for (io::StoredTensor& tensor : tensors_) tensor.name = "visual." + tensor.name;
  Add("visual.rope.freqs_cos", Tensor<float>({9, 8}));
  Add("visual.blocks.0.attn.rope.freqs_sin", Tensor<float>({9, 8}));
  Add("text.positional_embedding", Tensor<float>({4, 8}));
  Write();
  ExpectSameAnswers();
  const std::vector<std::string> assumptions = Checkpoint::Open(folder_.path()).description.assumptions;
  EXPECT_TRUE(std::ranges::any_of(
      assumptions, [](const std::string& text) { return text.find("text.positional_embedding") != text.npos; }));
}

// transformers' wrapper keeps timm's config.json; TimmWrapperModel has no classifier, whatever it says of classes.
TEST_F(TimmFiles, TransformersWrapper) {
  for (const char* golden : {"timm_vit", "timm_dinov3", "timm_beit", "timm_features"}) {
    SCOPED_TRACE(golden);
    const bool encoder = std::string_view(golden) == "timm_features";
    Load(golden);
    for (io::StoredTensor& tensor : tensors_) tensor.name = "timm_model." + tensor.name;
    Write([&](io::Json* config) {
      (*config)["model_type"] = "timm_wrapper";
      (*config)["architectures"] = {encoder ? "TimmWrapperModel" : "TimmWrapperForImageClassification"};
      if (encoder) (*config)["num_classes"] = (*config)["pretrained_cfg"]["num_classes"] = 2;
    });
    ExpectSameAnswers();
  }
}

// A model type that is not known is answered by those of its own kind.
TEST_F(TimmFiles, UnknownModelTypesAreToldTheirOwnKind) {
  Load("timm_vit");
  const auto message = [&](const io::Json& keys) {
    Write([&](io::Json* config) { *config = keys; });
    return ErrorMessage([&] { Checkpoint::Open(folder_.path()); });
  };
  const std::string text = message({{"model_type", "mamba"}, {"vocab_size", 100}});
  EXPECT_NE(text.find("\"mamba\" is not supported; supported text models: bert"), std::string::npos) << text;
  EXPECT_EQ(text.find("dinov2"), std::string::npos) << text;
  const std::string image = message({{"model_type", "swin"}, {"image_size", 224}});
  EXPECT_NE(image.find("supported image models:"), std::string::npos) << image;
  EXPECT_NE(image.find("dinov2"), std::string::npos) << image;
  EXPECT_EQ(image.find("llama"), std::string::npos) << image;
}

}  // namespace
}  // namespace qkv::model
