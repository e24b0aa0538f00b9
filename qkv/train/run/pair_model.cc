#include "qkv/train/run/pair_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "qkv/core/error.h"
#include "qkv/core/hash.h"
#include "qkv/io/safetensors.h"
#include "qkv/model/config/block_config.h"
#include "qkv/model/layout/bound_tensor.h"
#include "qkv/model/layout/tensor_table.h"
#include "qkv/train/run/run_folder.h"

namespace qkv::train {
namespace {

namespace fs = std::filesystem;
using model::SequenceConfig;

constexpr std::string_view kTable = "token_embed.weight";

uint64_t FingerprintOf(const PairData& data) {
  Fnv1a hash;
  const auto add = [&](const TokenTexts& texts) {
    for (int64_t i = 0; i < texts.size(); ++i) {
      const std::span<const int32_t> ids = texts[i];
      hash.Add({reinterpret_cast<const char*>(ids.data()), ids.size_bytes()}).AddByte(0xff);
    }
  };
  for (const PairSet* set : {&data.train, &data.validation}) add(set->source), add(set->target);
  return hash.value();
}

// A tensor of the buffer by its name in the layout: of which part, and its name there.
struct PartName {
  bool decoder;
  std::string name;
};

PartName SplitName(const std::string& name) {
  if (name == kTable) return {false, name};
  const bool decoder = name.starts_with("decoder.");
  return {decoder, name.substr(8)};  // "encoder." is as long
}

PairTokenizer ChooseTokenizer(const PairTexts& texts, const TrainConfig& config, const fs::path& begun) {
  if (!begun.empty() || !config.model.empty()) {
    const fs::path folder = begun.empty() ? fs::path(config.model) : begun;
    return OpenTokenizer(folder, TokensOfCheckpoint(model::TextCheckpoint::Open(folder)));
  }
  return config.tokenizer.empty() ? LearnTokenizer(texts, config.vocabulary) : OpenTokenizer(config.tokenizer);
}

model::SequenceConfig Part(const TrainConfig& config, const PairData& data, int64_t depth) {
  SequenceConfig c;
  c.vocabulary = std::max(data.tokenizer.tokenizer.max_stated_id(), data.tokenizer.target.max_stated_id()) + 1;
  c.outputs = 0;
  c.length = config.length;
  nn::BlockConfig& block = c.block;
  block.width = config.width;
  block.attention.kind = *model::FindAttentionKind(config.attention);
  block.attention.heads = config.heads;
  block.attention.head_width = config.width / config.heads;
  const nn::AttentionKind kind = block.attention.kind;
  const bool ranked = kind == nn::AttentionKind::kLowRank || kind == nn::AttentionKind::kSymmetric ||
                      kind == nn::AttentionKind::kPositional;
  block.attention.qk_width = ranked ? config.rank : 0;
  block.mlp.width = model::HiddenWidth(config.width, config.mlp_ratio);
  block.mlp.activation = *model::FindActivation(config.activation);
  block.norm.eps = 1e-5;
  block.norm_place = *model::FindNormPlace(config.norm_place);
  c.final_norm = block.norm_place == nn::NormPlace::kBefore;
  c.depth = depth;
  c.positions = model::SequencePositions::kSinusoidalHalves;
  c.embedding_scale = std::sqrt(static_cast<double>(config.width));
  c.head_bias = false;
  return c;
}

}  // namespace

PairData PairsForTraining(const fs::path& file, const TrainConfig& config, const fs::path& begun) {
  PairTexts train = ReadPairs(file), validation;
  if (config.valid.empty()) {
    std::tie(train, validation) = SplitPairs(std::move(train), config.val_fraction);
  } else {
    validation = ReadPairs(config.valid);
  }
  PairData data{.summary = {},
                .tokenizer = ChooseTokenizer(train, config, begun),
                .train = {},
                .validation = {},
                .validation_texts = std::move(validation)};
  const PairTokenizer& t = data.tokenizer;
  data.train = EncodePairs(train, t, config.length);
  data.validation = EncodePairs(data.validation_texts, t, config.length);
  Require(data.train.size() > 0 && data.validation.size() > 0,
          "{}: no line {} has up to {} tokens a side; try a larger length", file.string(),
          data.train.size() > 0 ? "for validation" : "to train on", config.length);
  data.fingerprint = FingerprintOf(data);
  const int64_t left_out = data.train.left_out + data.validation.left_out;
  data.summary = fmt::format(
      "pairs: {} lines to train on, {} for validation, {} tokens in the vocabulary{}", data.train.size(),
      data.validation.size(), t.tokenizer.size(),
      left_out == 0 ? "" : fmt::format("; {} with more than {} tokens a side are left out", left_out, config.length));
  return data;
}

PairConfig NewPair(const TrainConfig& config, const PairData& data) {
  PairConfig pair{Part(config, data, config.depth),
                  Part(config, data, config.decoder_depth > 0 ? config.decoder_depth : config.depth)};
  SequenceConfig& decoder = pair.decoder;
  decoder.causal = true;
  nn::AttentionConfig cross = decoder.block.attention;
  cross.kind = *model::FindAttentionKind(config.cross_attention);
  cross.of_source = true;
  const bool ranked = cross.kind == nn::AttentionKind::kLowRank || cross.kind == nn::AttentionKind::kSymmetric;
  cross.qk_width = ranked ? config.rank : 0;
  decoder.block.cross = cross;
  decoder.outputs = decoder.vocabulary;
  decoder.tied_head = true;
  Validate(pair);
  return pair;
}

PairConfig PairOfCheckpoint(const model::TextCheckpoint& checkpoint) {
  const model::TextDescription& d = checkpoint.description;
  Require(d.encoder && d.decoder && d.model_type.ends_with("marian"),
          "train: {} is {}; expected an encoder-decoder in Marian's layout", checkpoint.source, d.architecture);
  PairConfig config{*d.encoder, *d.decoder};
  if (config.decoder.head_bias) {
    const model::BoundTensor* const bias = model::FindTensor(checkpoint.decoder, "head.bias");
    const Tensor<float> values = model::Read<float>(*bias);
    config.decoder.head_bias = std::ranges::any_of(values.span(), [](float value) { return value != 0; });
  }
  Validate(config);
  return config;
}

model::TextTokens TokensOfCheckpoint(const model::TextCheckpoint& checkpoint) {
  const model::GenerationDefaults& g = checkpoint.description.generation;
  Require(g.start && !g.ends.empty() && g.padding,
          "train: {} names no {} token; expected \"decoder_start_token_id\", \"eos_token_id\" and \"pad_token_id\" in "
          "its config.json",
          checkpoint.source,
          !g.start         ? "start"
          : g.ends.empty() ? "end"
                           : "padding");
  return {.start = *g.start, .end = g.ends.front(), .padding = *g.padding};
}

void CopyPairWeights(const model::TextCheckpoint& checkpoint, const PairNetwork<float>& network, View<float> weights) {
  for (const Slot& slot : network.layout().slots()) {
    const PartName of = SplitName(slot.name);
    const model::BoundTensor* const bound =
        model::FindTensor(of.decoder ? checkpoint.decoder : checkpoint.encoder, of.name);
    Require(bound != nullptr, "train: {} has no tensor {}", checkpoint.source, slot.name);
    const Tensor<float> from = model::Read<float>(*bound);
    Require(from.size() == slot.shape.size(), "train: tensor {} of {} is {}, expected {}", slot.name, checkpoint.source,
            from.shape(), slot.shape);
    std::copy_n(from.data(), from.size(), weights.data() + slot.offset);
  }
}

std::string PairConfigJson(const PairConfig& config, const model::TextTokens& tokens) {
  return model::HfMarianConfig(config.encoder, config.decoder, tokens).dump(2) + "\n";
}

std::vector<io::StoredTensor> PairTensors(const PairNetwork<float>& network, View<const float> weights,
                                          const Tensor<float>& zeros) {
  const int64_t V = network.config().decoder.outputs;
  std::vector<io::StoredTensor> tensors;
  bool has_bias = false;
  for (const Slot& slot : network.layout().slots()) {
    const View<const float> whole = network.layout().At(slot.name, weights);
    const PartName of = SplitName(slot.name);
    const std::vector<std::string> names = model::HfMarianNames(of.decoder, of.name);
    if (of.decoder && of.name == "head.bias") {
      tensors.push_back(io::Stored<float>(names[0], whole.reshape({1, V})));
      has_bias = true;
      continue;
    }
    const int64_t rows = whole.dim(0) / std::ssize(names);
    for (int64_t i = 0; i < std::ssize(names); ++i) {
      tensors.push_back(io::Stored<float>(names[static_cast<size_t>(i)], whole.slice(0, i * rows, (i + 1) * rows)));
    }
  }
  if (!has_bias) {
    const std::string name = model::HfMarianNames(true, "head.bias")[0];
    tensors.push_back(io::Stored<float>(name, View<const float>(zeros.data(), {1, V})));
  }
  return tensors;
}

model::TextModel MakeTextModel(const PairNetwork<float>& network, View<const float> weights) {
  model::TextCheckpoint checkpoint;
  checkpoint.source = "the model in training";
  checkpoint.description.architecture = "MarianMTModel";
  checkpoint.description.model_type = "marian";
  checkpoint.description.encoder = network.config().encoder;
  checkpoint.description.decoder = network.config().decoder;
  std::vector<io::StoredTensor> stored;
  const std::vector<model::TensorSpec> encoder = model::TensorTable(network.config().encoder),
                                       decoder = model::TensorTable(network.config().decoder);
  stored.reserve(encoder.size() + decoder.size());
  const auto bind = [&](const std::vector<model::TensorSpec>& table, const std::string& part) {
    std::vector<model::BoundTensor> bound;
    for (const model::TensorSpec& spec : table) {
      const std::string name = spec.name == kTable ? spec.name : part + spec.name;
      stored.push_back(io::Stored<float>(spec.name, network.layout().At(name, weights)));
      bound.push_back({spec, {&stored.back()}});
    }
    return bound;
  };
  checkpoint.encoder = bind(encoder, "encoder.");
  checkpoint.decoder = bind(decoder, "decoder.");
  return model::TextModel(checkpoint);
}

}  // namespace qkv::train
