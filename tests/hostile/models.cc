// Whole models, a file of theirs changed: configuration, preprocessing, weights, the cache of finished layers.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "qkv/core/file.h"
#include "qkv/core/text.h"
#include "qkv/model/caption_model.h"
#include "qkv/model/layout/tensor_table.h"
#include "qkv/model/model.h"
#include "qkv/model/sequence/decoder.h"
#include "qkv/model/sequence/generation.h"
#include "qkv/model/sequence/sequence_model.h"
#include "qkv/model/sequence/text_cache.h"
#include "qkv/model/two_tower.h"
#include "qkv/model/vision/vit_cache.h"
#include "tests/hostile/reader.h"
#include "tests/support/checkpoints.h"
#include "tests/support/goldens.h"

namespace qkv::hostile {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::nanoseconds kNoRest{0};

// A few tokens about an image.
void WriteCaption(const model::Checkpoint& checkpoint) {
  const model::CaptionModel captions(checkpoint);
  image::Image image{Tensor<uint8_t>({5, 6, 3})};
  std::fill_n(image.pixels.data(), image.pixels.size(), uint8_t{100});
  model::CaptionWorkspace workspace;
  captions.ReadSource(captions.image().Pixels(image), workspace);
  constexpr int64_t kTokens = 3;
  model::Decoder<float> decoder(captions.decoder(), 1, kTokens + 1);
  model::GenerationSettings settings = SettingsOf(captions.description().generation, 1);
  settings.max_tokens = kTokens, settings.beams = 1;
  const std::vector<std::vector<int32_t>> start = {{captions.description().generation.start.value_or(0)}};
  Generate(decoder, start, &workspace.source, settings);
}

// Loaded, and asked once: a configuration that is accepted must be one that can be run.
void Use(const fs::path& folder, const model::ModelHints& given = {}) {
  {
    // Gone before the other tower comes: each takes the memory of its weights in pieces of 32 MiB.
    const model::Model model(model::Checkpoint::Open(folder, given));
    image::Image image{Tensor<uint8_t>({5, 6, 3})};
    std::fill_n(image.pixels.data(), image.pixels.size(), uint8_t{100});
    if (model.config().classes > 0) model.Classify(image);
  }
  const model::Checkpoint checkpoint = model::Checkpoint::Open(folder, given);
  if (checkpoint.description.decoder) WriteCaption(checkpoint);
  if (!checkpoint.description.text) return;
  const model::TwoTowerModel texts(checkpoint, model::Towers::kText);
  texts.TextEmbeds(Tensor<int64_t>({2, std::min<int64_t>(3, texts.text_length())}));
}

// FOLDER/NAME: a copy of each golden, whose file is changed in place.
Reading Goldens(const std::string& file, const std::vector<std::string>& names) {
  const auto folder = std::make_shared<TemporaryFolder>();
  Reading reading;
  for (const std::string& name : names) {
    fs::create_directories(*folder / name);
    for (const char* part : {"config.json", "preprocessor_config.json", "model.safetensors", "open_clip_config.json",
                             "open_clip_model.safetensors"}) {
      if (fs::exists(GoldenFolder(name) / part)) fs::copy_file(GoldenFolder(name) / part, *folder / name / part);
    }
    const std::string bytes = ReadFile(*folder / name / file);
    reading.seeds.push_back(file.ends_with(".json") ? JsonSeed(name, bytes) : SafeTensorsSeed(name, bytes));
  }
  reading.read = [folder, file](const Seed& seed, const std::string& bytes) {
    WriteFile(*folder / seed.name / file, bytes);
    Use(*folder / seed.name);
  };
  return reading;
}

// Without a configuration: the tensors say what the model is, this one's heads too, but not how images are normalised.
Reading TensorsAlone() {
  const auto folder = std::make_shared<TemporaryFolder>();
  Reading reading;
  reading.seeds.push_back(
      SafeTensorsSeed("timm_qk_norm", ReadFile(GoldenFolder("timm_qk_norm") / "model.safetensors")));
  reading.read = [folder](const Seed&, const std::string& bytes) {
    WriteFile(*folder / "model.safetensors", bytes);
    Use(*folder / "model.safetensors", {.mean = {0.5}, .std = {0.5}});
  };
  return reading;
}

Reading SequenceModels() {
  const auto folder = std::make_shared<TemporaryFolder>();
  model::SequenceConfig config;
  config.vocabulary = config.outputs = 5, config.length = 6, config.block.width = 8, config.depth = 1,
  config.block.attention.heads = 2, config.block.attention.head_width = 4, config.block.mlp.width = 32;
  config.causal = true;
  TensorSet(model::TensorTable(config)).Write(*folder / "model.safetensors");
  Reading reading;
  reading.seeds.push_back(JsonSeed("sequence", model::ToJson(config).dump(1)));
  reading.read = [folder](const Seed&, const std::string& bytes) {
    WriteFile(*folder / "config.json", bytes);
    const auto model = model::SequenceModel<float>::Load(folder->path());
    Tensor<int32_t> tokens({1, 3});
    std::fill_n(tokens.data(), tokens.size(), 1);
    model.Logits(tokens);
  };
  return reading;
}

// What is wrong with a cache is a note, and the model is built.
Reading FinishedModels() {
  const auto folder = std::make_shared<TemporaryFolder>();
  const fs::path golden = GoldenFolder("timm_vit");
  const auto checkpoint = std::make_shared<const model::Checkpoint>(model::Checkpoint::Open(golden));
  model::BuildCached(*checkpoint, {}, {.folder = folder->path(), .rest = kNoRest});
  const fs::path file = model::CacheFile(*checkpoint, {}, folder->path());
  Reading reading;
  reading.seeds.push_back(SafeTensorsSeed("cache", ReadFile(file)));
  reading.read = [folder, checkpoint, file](const Seed&, const std::string& bytes) {
    WriteFile(file, bytes);
    std::string notes;
    const auto note = [&](const std::string& text) { notes += text; };
    const model::Model model(*checkpoint, {}, {.folder = folder->path(), .note = note, .rest = kNoRest});
    model.Logits(Tensor<float>({1, model.config().channels, model.config().image_height, model.config().image_width}));
    // A note is shown as an error is, and held to the same.
    if (Printable(notes) != notes) throw std::logic_error("a note that is not printable");
    Require(notes.empty(), "{}", notes);
  };
  return reading;
}

// Likewise a text model.
Reading FinishedTextModels() {
  const auto folder = std::make_shared<TemporaryFolder>();
  const auto checkpoint =
      std::make_shared<const model::TextCheckpoint>(model::TextCheckpoint::Open(TextGoldenFolder("marian_trained")));
  model::BuildCached(*checkpoint, {}, {.folder = folder->path(), .rest = kNoRest});
  const fs::path file = model::CacheFile(*checkpoint, {}, folder->path());
  Reading reading;
  reading.seeds.push_back(SafeTensorsSeed("text cache", ReadFile(file)));
  reading.read = [folder, checkpoint, file](const Seed&, const std::string& bytes) {
    WriteFile(file, bytes);
    std::string notes;
    const auto note = [&](const std::string& text) { notes += text; };
    const model::TextModel model =
        model::BuildCached(*checkpoint, {}, {.folder = folder->path(), .note = note, .rest = kNoRest});
    const Tensor<int32_t> ids({1, 3});
    model::TextWorkspace workspace;
    Tensor<float> logits({1, 3, model.decoder().config().outputs});
    model.Forward({.ids = ids, .decoder_ids = ids}, workspace, {.logits = logits});
    if (Printable(notes) != notes) throw std::logic_error("a note that is not printable");
    Require(notes.empty(), "{}", notes);
  };
  return reading;
}

}  // namespace

std::vector<Reader> ModelReaders() {
  // An encoder and a decoder have a pool of 32 MB each for their layers, most of which stays untouched.
  constexpr size_t kPair = 128;
  const std::vector<std::string> families = {"timm_vit",
                                             "timm_no_pos_embed",
                                             "timm_map",
                                             "timm_swiglu",
                                             "timm_kind_low_rank",
                                             "hf_vit",
                                             "hf_dinov2_registers",
                                             "hf_deit",
                                             "vit_pytorch_vit",
                                             "vit_pytorch_simple",
                                             "vit_pytorch_old",
                                             "vit_pytorch_dim_head",
                                             "timm_deit3",
                                             "hf_clip",
                                             "hf_siglip",
                                             "hf_beit_both",
                                             "timm_beit",
                                             "hf_yolos",
                                             "hf_data2vec",
                                             "timm_eva02",
                                             "caption/vit_gpt2",
                                             "caption/vit_trocr_sinusoidal"};
  return {
      {.name = "Config", .open = [=] { return Goldens("config.json", families); }, .inputs = 130, .megabytes = kPair},
      {.name = "OpenClipConfig",
       .open =
           [] {
             return Goldens("open_clip_config.json", {"open_clip_clip", "open_clip_siglip"});
           }},
      {.name = "Preprocessor",
       .open =
           [] {
             return Goldens("preprocessor_config.json", {"hf_vit", "hf_dinov2_registers", "hf_deit", "hf_clip"});
           }},
      {.name = "Weights",
       .open =
           [] {
             return Goldens("model.safetensors", {"timm_vit", "vit_pytorch_simple"});
           }},
      {.name = "TensorsAlone", .open = TensorsAlone},
      {.name = "SequenceConfig", .open = SequenceModels},
      {.name = "ModelCache", .open = FinishedModels},
      {.name = "TextModelCache", .open = FinishedTextModels, .megabytes = kPair}};
}

}  // namespace qkv::hostile
