// Every golden of tests/golden/caption: transformers' tokens, logits, attention weights and texts of models that write
// about images, in both precisions; images together as alone; and broken files.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <vector>

#include "qkv/core/file.h"
#include "qkv/io/json.h"
#include "qkv/io/safetensors.h"
#include "qkv/model/blocks/affine.h"
#include "qkv/model/caption_model.h"
#include "qkv/model/sequence/decoder.h"
#include "qkv/model/sequence/generation.h"
#include "tests/support/difference.h"
#include "tests/support/errors.h"
#include "tests/support/goldens.h"
#include "tests/support/integers.h"

namespace qkv::model {
namespace {

namespace fs = std::filesystem;

fs::path CaptionGolden(const std::string& name) { return GoldenFolder("caption") / name; }
io::SafeTensors Expected(const std::string& name) {
  return io::SafeTensors::Open(CaptionGolden(name) / "expected.safetensors");
}

// All outputs in T by their names in the reference, from the parts of an open checkpoint.
template <typename T>
class PassOfParts {
 public:
  explicit PassOfParts(const std::string& golden) : expected_(Expected(golden)) {
    const Checkpoint checkpoint = Checkpoint::Open(CaptionGolden(golden));
    const CaptionDecoder& d = *checkpoint.description.decoder;
    const auto pixels = io::Convert<T>(*expected_.Find("pixels"));
    const auto ids = ReadIntegers<int32_t>(*expected_.Find("decoder_input_ids"));
    const Vit<T> vit(checkpoint.description.config, checkpoint.bound);
    const VitConfig& e = vit.config();
    const int64_t B = pixels.dim(0), N = vit.TokensFor(pixels.dim(2), pixels.dim(3)), length = ids.dim(1);
    Outputs<T> of_image{.tokens = Add("encoder_tokens", {B, N, e.block.width})};
    of_image.attention = Weights("encoder_attention", e.depth, {B, e.block.attention.heads, N, N});
    Workspace<T> workspace;
    vit.Forward(pixels, workspace, of_image);
    Arena arena;
    Tensor<T> source = all.at("encoder_tokens").Clone();
    if (d.projection) {
      const nn::Linear<T> projection = Stored(checkpoint).Linear("projection");
      auto projected = Tensor<T>::Uninitialised({B, N, d.config.block.width});
      nn::LinearForward<T>(source.view().reshape({B * N, e.block.width}), projection,
                           projected.view().reshape({B * N, d.config.block.width}));
      source = std::move(projected);
    }
    const SequenceModel<T> decoder(d.config, checkpoint.decoder);
    Tensor<int64_t> lengths({B});
    std::fill_n(lengths.data(), B, N);
    Source<T> read;
    decoder.ReadSource(source, lengths, arena, &read);
    SequenceOutputs<T> outputs{.logits = Add("logits", {B, length, d.config.outputs}),
                               .tokens = Add("tokens", {B, length, d.config.block.width})};
    outputs.attention = Weights("attention", d.config.depth, {B, d.config.block.attention.heads, length, length});
    outputs.cross_attention = Weights("cross_attention", d.config.depth, {B, d.config.block.cross->heads, length, N});
    decoder.Forward(ids, {.source = &read}, arena, outputs);
  }

  Tensor<double> Reference(const std::string& name, bool exact) const {
    return io::Convert<double>(*expected_.Find(name + (exact ? ".float64" : "")));
  }

  std::map<std::string, Tensor<T>> all;

 private:
  static model::Weights<T> Stored(const Checkpoint& checkpoint) { return model::Weights<T>(checkpoint.decoder); }
  View<T> Add(const std::string& name, const Shape& shape) {
    return all.emplace(name, Tensor<T>(shape)).first->second.view();
  }
  std::vector<typename Outputs<T>::Attention> Weights(const std::string& name, int64_t depth, const Shape& shape) {
    std::vector<typename Outputs<T>::Attention> attention;
    for (int64_t block = 0; block < depth; ++block) {
      attention.push_back({block, {0, shape[2], Add(fmt::format("{}.{}", name, block), shape)}});
    }
    return attention;
  }

  io::SafeTensors expected_;
};

class CaptionGoldens : public testing::TestWithParam<std::string> {
 protected:
  // What transformers wrote, without its padding and the token that begins it.
  std::vector<std::vector<int32_t>> Written(const std::string& name) const {
    const auto table = ReadIntegers<int32_t>(*Expected(GetParam()).Find("generated." + name));
    std::vector<std::vector<int32_t>> texts;
    for (int64_t b = 0; b < table.dim(0); ++b) {
      const int32_t* const row = table.view().row(b);
      texts.emplace_back(row + 1, std::find(row, row + table.dim(1), -1));
    }
    return texts;
  }
};
INSTANTIATE_TEST_SUITE_P(Cases, CaptionGoldens, testing::ValuesIn(GoldensIn(GoldenFolder("caption"))),
                         [](const auto& name) { return name.param; });

// The design's criterion: four times the original's own float error, and a rounding of the greatest entry.
TEST_P(CaptionGoldens, FloatAgreesAsFarAsTheOriginalsOwnFloatDoes) {
  const PassOfParts<float> run(GetParam());
  EXPECT_EQ(run.all.size(), 9u);
  for (const auto& [name, ours] : run.all) {
    const Tensor<double> single = run.Reference(name, false), exact = run.Reference(name, true);
    EXPECT_LE(MaxDifference(ours, exact), 4 * MaxDifference(single, exact) + 1e-6 * MaxAbs(exact)) << name;
  }
}

TEST_P(CaptionGoldens, DoubleAgreesToTheLastDigits) {
  const PassOfParts<double> run(GetParam());
  for (const auto& [name, ours] : run.all) {
    const Tensor<double> exact = run.Reference(name, true);
    EXPECT_LE(MaxDifference(ours, exact), 1e-12 * std::max(1.0, MaxAbs(exact))) << name;
  }
}

TEST_P(CaptionGoldens, TheWholeIsItsParts) {
  const PassOfParts<float> run(GetParam());
  const auto model = CaptionModel::Load(CaptionGolden(GetParam()));
  const io::SafeTensors expected = Expected(GetParam());
  const auto pixels = io::Convert<float>(*expected.Find("pixels"));
  const auto ids = ReadIntegers<int32_t>(*expected.Find("decoder_input_ids"));
  Tensor<float> logits(run.all.at("logits").shape()), tokens(run.all.at("encoder_tokens").shape());
  CaptionWorkspace workspace;
  model.Forward(pixels, ids, workspace, {.encoder_tokens = tokens, .logits = logits});
  EXPECT_LE(MaxDifference(logits, run.all.at("logits")), 1e-6 * MaxAbs(logits));
  EXPECT_LE(MaxDifference(tokens, run.all.at("encoder_tokens")), 1e-6 * MaxAbs(tokens));
}

TEST_P(CaptionGoldens, WritesWhatTransformersWrites) {
  const auto model = CaptionModel::Load(CaptionGolden(GetParam()));
  const auto pixels = io::Convert<float>(*Expected(GetParam()).Find("pixels"));
  const GenerationDefaults& defaults = model.description().generation;
  const GenerationSettings by_files = SettingsOf(defaults, /*prompt=*/1);
  const GenerationSettings plain = {.max_tokens = 12, .ends = by_files.ends, .suppressed = by_files.suppressed};
  GenerationSettings beam = plain, options = plain;
  beam.beams = 4, beam.length_penalty = 0.8;
  options.beams = 3, options.no_repeat_ngram = 2, options.min_tokens = 5, options.length_penalty = 1.3;
  options.repetition_penalty = 1.2;
  const std::map<std::string, GenerationSettings> all = {
      {"greedy", plain}, {"beam", beam}, {"options", options}, {"default", by_files}};
  for (const auto& [name, settings] : all) {
    const std::vector<std::vector<int32_t>> expected = Written(name);
    const auto write = [&, &settings = settings](View<const float> images) {
      CaptionWorkspace workspace;
      model.ReadSource(images, workspace);
      Decoder<float> decoder(model.decoder(), images.dim(0) * settings.beams);
      const std::vector<std::vector<int32_t>> starts(static_cast<size_t>(images.dim(0)), {*defaults.start});
      return Generate(decoder, starts, &workspace.source, settings);
    };
    const std::vector<Generated> together = write(pixels);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(together[i].tokens, expected[i]) << name << ", image " << i;
      const auto b = static_cast<int64_t>(i);
      EXPECT_EQ(write(pixels.view().slice(0, b, b + 1))[0].tokens, expected[i]) << name << ", image " << i << " alone";
    }
  }
}

TEST(CaptionFiles, OldSettingsAreThoseOfBothParts) {
  const auto checkpoint = Checkpoint::Open(CaptionGolden("vit_gpt2_old"));
  const GenerationDefaults& g = checkpoint.description.decoder->generation;
  EXPECT_EQ(g.start, 0);
  EXPECT_EQ(g.ends, std::vector<int32_t>{0});
  EXPECT_EQ(g.max_length, 8);
  EXPECT_EQ(g.beams, 2);
}

// A copy of a golden whose configuration or tensors were changed.
class Broken {
 public:
  using Change = std::function<void(io::Json*, std::vector<io::StoredTensor>*)>;
  Broken(const std::string& golden, const Change& change) {
    io::Json config = io::ReadJson(CaptionGolden(golden) / "config.json");
    const auto file = io::SafeTensors::Open(CaptionGolden(golden) / "model.safetensors");
    std::vector<io::StoredTensor> tensors(file.tensors().begin(), file.tensors().end());
    change(&config, &tensors);
    WriteFile(folder_ / "config.json", config.dump());
    io::WriteSafeTensors(folder_ / "model.safetensors", tensors);
  }
  std::string Message() const {
    return ErrorMessage([&] { CaptionModel::Load(folder_.path()); });
  }

 private:
  TemporaryFolder folder_;
};

void Drop(std::vector<io::StoredTensor>* tensors, const std::string& name) {
  EXPECT_EQ(std::erase_if(*tensors, [&](const io::StoredTensor& tensor) { return tensor.name == name; }), 1u) << name;
}

void ExpectMessage(const std::string& golden, const Broken::Change& change, const std::string& part) {
  const std::string message = Broken(golden, change).Message();
  EXPECT_NE(message.find(part), std::string::npos) << message << "\nexpected " << part;
}

TEST(CaptionFiles, BrokenOnesAreRefused) {
  for (const char* name : {"encoder.embeddings.cls_token", "decoder.transformer.h.1.crossattention.q_attn.weight",
                           "decoder.transformer.h.0.ln_cross_attn.bias", "decoder.transformer.wpe.weight"}) {
    ExpectMessage(
        "vit_gpt2", [&](io::Json*, auto* tensors) { Drop(tensors, name); }, name);
  }
  ExpectMessage(
      "deit_trocr",
      [](io::Json*, auto* tensors) { Drop(tensors, "decoder.model.decoder.layers.1.encoder_attn.v_proj.weight"); },
      "encoder_attn.v_proj.weight");
  ExpectMessage(
      "deit_trocr", [](io::Json* config, auto*) { (*config)["decoder"]["cross_attention_hidden_size"] = 12; },
      "width 12");
  ExpectMessage(
      "vit_gpt2", [](io::Json* config, auto*) { (*config)["encoder"]["hidden_size"] = 32; }, "enc_to_dec_proj");
  ExpectMessage(
      "vit_gpt2", [](io::Json* config, auto*) { (*config)["decoder"]["add_cross_attention"] = false; },
      "no cross-attention");
  ExpectMessage(
      "vit_gpt2", [](io::Json* config, auto*) { (*config)["decoder"]["model_type"] = "bert"; }, "gpt2 or trocr");
  ExpectMessage(
      "vit_gpt2", [](io::Json* config, auto*) { config->erase("decoder"); }, "gpt2 or trocr");
  ExpectMessage(
      "vit_gpt2", [](io::Json* config, auto*) { config->erase("encoder"); }, "no \"model_type\"");
  ExpectMessage(
      "vit_gpt2", [](io::Json* config, auto*) { (*config)["encoder"]["model_type"] = "swin"; }, "\"swin\"");
  ExpectMessage(
      "vit_gpt2", [](io::Json* config, auto*) { (*config)["encoder"] = *config; }, "itself an encoder-decoder");
  ExpectMessage(
      "vit_trocr_sinusoidal",
      [](io::Json* config, auto*) { (*config)["decoder"]["max_position_embeddings"] = int64_t{1} << 40; }, "length");
  ExpectMessage(
      "vit_trocr_sinusoidal", [](io::Json* config, auto*) { (*config)["decoder"]["pad_token_id"] = -2; }, "offset");
  EXPECT_NE(ErrorMessage([] { CaptionModel::Load(GoldenFolder("hf_vit")); }).find("has no decoder"), std::string::npos);
}

// Heads of its own, although the configuration ties them, are used, as by transformers 5.
TEST(CaptionFiles, AStoredHeadIsUsed) {
  const auto tied = Checkpoint::Open(CaptionGolden("vit_gpt2"));
  EXPECT_TRUE(tied.description.decoder->config.tied_head);
  EXPECT_TRUE(Checkpoint::Open(CaptionGolden("vit_gpt2_projected")).description.decoder->config.tied_head)
      << "stored twice, equal";
  Tensor<float> head({60, 16});
  const std::string message = Broken("vit_gpt2", [&](io::Json*, auto* tensors) {
                                tensors->push_back(io::Stored<float>("decoder.lm_head.weight", head));
                              }).Message();
  EXPECT_EQ(message, "") << "a head of zeros";
}

}  // namespace
}  // namespace qkv::model
