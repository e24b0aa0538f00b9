#include "qkv/app/models/info.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <map>
#include <set>

#include "qkv/app/models/sequence_info.h"
#include "qkv/app/open/parse.h"
#include "qkv/model/checkpoint/separate.h"
#include "qkv/model/config/separation.h"
#include "qkv/model/layout/bound_tensor.h"
#include "qkv/model/layout/cost.h"
#include "qkv/model/layout/tensor_table.h"
#include "qkv/report/text.h"
#include "qkv/simd/isa.h"

namespace qkv::app {
namespace {

// Parameters that the kind of attention saves against separate queries, keys and values; negative if it has more.
int64_t SavedParameters(const model::VitConfig& c) {
  return model::Parameters(model::AsSeparate(c)) - model::Parameters(c);
}

std::string DescribePreprocess(const model::Description& description) {
  if (!description.unknown_preprocess.empty()) return "unknown: " + description.unknown_preprocess;
  const image::Preprocess& p = description.preprocess;
  std::string text;
  switch (p.resize) {
    case image::Preprocess::Resize::kNone:
      text = "no resize";
      break;
    case image::Preprocess::Resize::kExact:
      text = fmt::format("resize to {}x{}", p.resize_height, p.resize_width);
      break;
    case image::Preprocess::Resize::kShortestEdge:
      text = fmt::format("shorter edge to {}", p.resize_height);
      break;
    case image::Preprocess::Resize::kEdges:
      text = fmt::format("shorter edge to {}, longer to at most {}", p.resize_height, p.resize_width);
      if (p.resize_multiple > 1) text += fmt::format(", down to multiples of {}", p.resize_multiple);
      break;
    case image::Preprocess::Resize::kFit:
      text = fmt::format("fit into {}x{}", p.resize_height, p.resize_width);
      break;
    case image::Preprocess::Resize::kCover:
      text = fmt::format("cover {}x{}", p.resize_height, p.resize_width);
      break;
  }
  static constexpr const char* kFilters[] = {"nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"};
  if (p.resize != image::Preprocess::Resize::kNone) text += fmt::format(" ({})", kFilters[static_cast<int>(p.filter)]);
  if (p.crop != image::Preprocess::Crop::kNone) {
    text += fmt::format(", {} {}x{}", p.crop == image::Preprocess::Crop::kCorner ? "pad to" : "crop", p.crop_height,
                        p.crop_width);
  }
  if (p.squares) text += " (segment: overlapping squares)";
  text += fmt::format(", times {:.6g}", p.rescale);
  if (!p.mean.empty()) {
    text += fmt::format(", mean ({:.4g}), std ({:.4g})", fmt::join(p.mean, ", "), fmt::join(p.std, ", "));
  }
  return text;
}

// "3 x 224 x 224", and the size that stored positions are for if it differs.
std::string DescribeInput(const model::VitConfig& stored, const model::VitConfig& c) {
  std::string text = fmt::format("{} x {} x {}", c.channels, c.image_height, c.image_width);
  if (std::pair(stored.image_height, stored.image_width) != std::pair(c.image_height, c.image_width)) {
    text += fmt::format(", by preprocessing; stored: {} x {}", stored.image_height, stored.image_width);
  }
  return text;
}

std::string DescribeTokens(const model::VitConfig& c) {
  std::string text = fmt::format("{} = {}x{} patches of {}x{}", c.tokens(), c.grid_height(), c.grid_width(),
                                 c.patch_height, c.patch_width);
  if (c.class_token) text += " + class token";
  if (c.distillation_token) text += " + distillation token";
  if (c.registers > 0) text += fmt::format(" + {} registers", c.registers);
  if (c.detection_tokens > 0) text += fmt::format(" + {} detection tokens", c.detection_tokens);
  if (c.query_tokens > 0) {
    text += fmt::format(" + {} query tokens in the last {} blocks", c.query_tokens, c.query_blocks);
  }
  return text;
}

std::string DescribeTypes(const io::TensorSet& tensors) {
  std::map<std::string_view, int64_t> counts;
  for (const auto& tensor : tensors.tensors()) ++counts[qkv::Name(tensor.dtype)];
  std::string text;
  for (const auto& [type, count] : counts) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, type);
  return text;
}

// "merged: 1,234 parameters more than separate queries, keys and values would have"
std::string DescribeAttention(const model::VitConfig& c) {
  std::string text(model::Name(c.block.attention.kind));
  if (c.block.attention.qk_width > 0) text += fmt::format(" of rank {}", c.block.attention.qk_width);
  if (c.block.attention.kind == nn::AttentionKind::kSeparate) return text;
  const int64_t saved = SavedParameters(c);
  return fmt::format("{}: {} parameters {} than with separate queries, keys and values", text,
                     report::WithCommas(std::abs(saved)), saved >= 0 ? "fewer" : "more");
}

const char* RelativeBiases(const model::VitConfig& c) {
  if (!c.shared_biases) return "biases by relative position";
  return c.block.attention.bias_rows > 0 ? "biases by relative position, and shared ones"
                                         : "shared biases by relative position";
}

std::string DescribeBlock(const model::VitConfig& c) {
  std::string text = c.block.mlp.gate == simd::Gate::kNone ? "" : "gated ";
  text += model::Name(c.block.mlp.activation);
  const std::pair<bool, const char*> parts[] = {
      {!c.block.attention.bias, "no bias on q, k, v"},
      {c.block.attention.bias && !c.block.attention.key_bias, "no bias on k"},
      {c.rotary != model::PatchRotary::kNone, "rotary positions"},
      {c.has_relative_biases(), RelativeBiases(c)},
      {!c.block.attention.projection, "no output projection"},
      {c.block.attention.qk_norm, "norms on q and k"},
      {c.block.attention.sinks, "attention sinks"},
      {c.block.layer_scale, "LayerScale"},
      {c.block.norm.kind == simd::NormKind::kRms, "RMSNorm"},
      {c.embed_norm, "norm after the patch projection"},
      {c.block.norm_place == nn::NormPlace::kOutput, "norms of outputs"},
      {c.block.norm_place == nn::NormPlace::kParallel, "MLP beside attention"},
      {c.pre_norm, "norm before the blocks"},
      {!c.final_norm && !c.fc_norm, "no final norm"},
      {c.block.attention.output_norm, "norm before the projection"},
      {c.block.mlp.norm, "norm inside the MLP"}};
  for (const auto& [there, name] : parts) {
    if (there) text += fmt::format(", {}", name);
  }
  return text;
}

// "fp32, bf16 (avx512_bf16), int8 (avx512_vnni); --dtype auto is bf16"
std::string DescribePrecisions() {
  const simd::PrecisionSupport bf16 = simd::Describe(simd::Precision::kBfloat16);
  return fmt::format("fp32, bf16 ({}), int8 ({}); --dtype auto is {}",
                     bf16.native ? bf16.kernel : "stored only: no speed", simd::Describe(simd::Precision::kInt8).kernel,
                     PrecisionName(ParsePrecision("auto", "precision")));
}

// Tensors of the file that the model uses.
using BoundTensors = std::vector<model::BoundTensor>;

std::set<const io::StoredTensor*> TensorsOf(std::initializer_list<const BoundTensors*> parts) {
  std::set<const io::StoredTensor*> used;
  for (const BoundTensors* part : parts) {
    for (const model::BoundTensor& bound : *part) used.insert(bound.parts.begin(), bound.parts.end());
  }
  return used;
}

size_t UsedTensors(const model::Checkpoint& checkpoint) {
  return TensorsOf({&checkpoint.bound, &checkpoint.text, &checkpoint.decoder}).size();
}

// One of these words is in the name of every tensor of a head.
constexpr std::string_view kHeadWords[] = {"classifier", "pooler", "head", "predictions", "seq_relationship",
                                           "score.",     "fc.",    "proj", "decoder."};

std::string DescribeUnread(const std::string& source, const io::TensorSet& tensors,
                           const std::set<const io::StoredTensor*>& used) {
  int64_t count = 0;
  std::string first;
  for (const io::StoredTensor& tensor : tensors.tensors()) {
    const auto is_in = [&](std::string_view word) { return tensor.name.find(word) != tensor.name.npos; };
    if (used.contains(&tensor) || std::ranges::none_of(kHeadWords, is_in)) continue;
    if (count++ == 0) first = tensor.name;
  }
  if (count == 0) return "";
  return FormatShown("{}: {}{} of a head {} not read", source, first,
                     count > 1 ? fmt::format(" and {} more tensor{}", count - 1, count > 2 ? "s" : "") : "",
                     count > 1 ? "are" : "is");
}

// "12 blocks of width 512, 8 heads of 64, MLP 2048; up to 77 of 49408 tokens, softmax over texts"
std::string DescribeText(const model::TextTower& tower) {
  const model::SequenceConfig& c = tower.config;
  return fmt::format("{} blocks of width {}, {} heads of {}, MLP {}; up to {} of {} tokens, {}", c.depth, c.block.width,
                     c.block.attention.heads, c.block.attention.head_width, c.block.mlp.width, c.length, c.vocabulary,
                     tower.matching == model::Matching::kSoftmax ? "softmax over texts" : "sigmoid of each text");
}

io::Json TextJson(const model::TextTower& tower) {
  const model::SequenceConfig& c = tower.config;
  return {{"parameters", model::Parameters(c)},
          {"width", c.block.width},
          {"depth", c.depth},
          {"heads", c.block.attention.heads},
          {"length", c.length},
          {"vocabulary", c.vocabulary},
          {"embedding", c.outputs},
          {"causal", c.causal},
          {"pool", model::Name(c.pool)},
          {"matching", model::Name(tower.matching)}};
}

// "VisionEncoderDecoderModel, ViTModel with gpt2"
std::string DescribeArchitecture(const model::Description& description) {
  const std::string& encoder = description.config.architecture;
  if (!description.decoder) return encoder;
  return fmt::format("{}, {} with {}", description.decoder->architecture, encoder, description.decoder->model_type);
}

// "up to 1024 of 50257 tokens, read from tokens of width 768 through a linear layer"
std::string DescribeWriter(const model::Description& description) {
  const model::CaptionDecoder& d = *description.decoder;
  return fmt::format("up to {} of {} tokens, read from image tokens of width {}{}", d.config.length,
                     d.config.vocabulary, description.config.block.width,
                     d.projection ? " through a linear layer" : "");
}

io::Json DecoderJson(const model::CaptionDecoder& decoder) {
  io::Json json = SequenceJson(decoder.config);
  json["model_type"] = decoder.model_type;
  json["parameters"] = model::Parameters(decoder.config);
  json["projection"] = decoder.projection;
  return json;
}

std::string DescribeOutput(const model::Description& description) {
  const model::VitConfig& c = description.config;
  if (description.decoder) return "texts about images (qkv caption)";
  const char* const labels = description.labels.empty() ? "" : ", with labels";
  switch (c.heads()) {
    case model::HeadKind::kBoxes:
      return fmt::format("{} boxes of {} classes{}", c.detection_tokens, c.detection_classes, labels);
    case model::HeadKind::kMasks:
      return fmt::format("{} masks of {}x{}, of {} classes{}", c.query_tokens, c.mask_side(c.grid_height()),
                         c.mask_side(c.grid_width()), c.mask_classes, labels);
    case model::HeadKind::kClasses:
      return fmt::format("{} classes{}", c.classes, labels);
    case model::HeadKind::kVector:
      break;
  }
  return fmt::format("{} features ({})", c.outputs(),
                     c.projection_width > 0 ? "projected into a space shared with texts" : "no classifier");
}

}  // namespace

std::string UnreadHeads(const model::Checkpoint& checkpoint) {
  return DescribeUnread(checkpoint.source, *checkpoint.tensors,
                        TensorsOf({&checkpoint.bound, &checkpoint.text, &checkpoint.decoder}));
}

std::string UnreadHeads(const model::TextCheckpoint& checkpoint) {
  return DescribeUnread(checkpoint.source, *checkpoint.tensors, TensorsOf({&checkpoint.encoder, &checkpoint.decoder}));
}

io::Json InfoJson(const model::Checkpoint& checkpoint) {
  const model::Description& description = checkpoint.description;
  const model::VitConfig &stored = description.config, c = model::InputConfig(description);
  io::Json json = {{"source", checkpoint.source},
                   {"family", model::Name(c.family)},
                   {"architecture", DescribeArchitecture(description)},
                   {"tensors_used", UsedTensors(checkpoint)},
                   {"tensors", checkpoint.tensors->tensors().size()},
                   {"bytes", checkpoint.tensors->bytes()},
                   {"parameters", model::Parameters(stored)},
                   {"flops", model::Flops(c)},
                   {"image_size", {c.image_height, c.image_width}},
                   {"stored_image_size", {stored.image_height, stored.image_width}},
                   {"patch_size", {c.patch_height, c.patch_width}},
                   {"channels", c.channels},
                   {"tokens", c.tokens()},
                   {"width", c.block.width},
                   {"depth", c.depth},
                   {"heads", c.block.attention.heads},
                   {"head_width", c.block.attention.head_width},
                   {"attention", model::Name(c.block.attention.kind)},
                   {"qk_width", c.block.attention.query_width()},
                   {"parameters_saved", SavedParameters(stored)},
                   {"mlp_width", c.block.mlp.width},
                   {"classes", c.classes},
                   {"detection_tokens", c.detection_tokens},
                   {"detection_classes", c.detection_classes},
                   {"query_tokens", c.query_tokens},
                   {"query_blocks", c.query_blocks},
                   {"mask_classes", c.mask_classes},
                   {"labels", description.labels},
                   {"pool", model::Name(c.pool)},
                   {"preprocessing", DescribePreprocess(description)},
                   {"assumptions", description.assumptions}};
  if (!description.licence.empty()) json["licence"] = description.licence;
  if (!description.tiles.empty()) json["tiles"] = description.tiles;
  if (description.text) json["text"] = TextJson(*description.text);
  if (description.decoder) json["decoder"] = DecoderJson(*description.decoder);
  return json;
}

std::vector<std::pair<std::string, std::string>> InfoLines(const model::Checkpoint& checkpoint) {
  const model::Description& description = checkpoint.description;
  const model::VitConfig &stored = description.config, c = model::InputConfig(description);
  std::vector<std::pair<std::string, std::string>> rows = {
      {"model", checkpoint.source},
      {"family", std::string(model::Name(c.family))},
      {"architecture", DescribeArchitecture(description)},
      {"tensors", fmt::format("{} of {} used ({})", UsedTensors(checkpoint), checkpoint.tensors->tensors().size(),
                              DescribeTypes(*checkpoint.tensors))},
      {"parameters", report::WithCommas(model::Parameters(stored))},
      {"cost", fmt::format("{:.2f} GFLOP an image", model::Flops(c) / 1e9)},
      {"input", DescribeInput(stored, c)},
      {"tokens", DescribeTokens(c)},
      {"blocks", fmt::format("{} of width {}, {} heads of {}, MLP {}", c.depth, c.block.width, c.block.attention.heads,
                             c.block.attention.head_width, c.block.mlp.width)},
      {"attention", DescribeAttention(stored)},
      {"in a block", DescribeBlock(c)},
      {"pooling", std::string(model::Name(c.pool))},
      {"output", DescribeOutput(description)},
      {"preprocessing", DescribePreprocess(description)},
      {"runs on", fmt::format("{} kernels; {}", simd::Name(simd::ActiveIsa()), DescribePrecisions())},
  };
  if (description.text) rows.emplace_back("texts", DescribeText(*description.text));
  if (description.decoder) {
    rows.emplace_back("decoder", fmt::format("{}; {} parameters", DescribeSequence(description.decoder->config),
                                             report::WithCommas(model::Parameters(description.decoder->config))));
    rows.emplace_back("texts", DescribeWriter(description));
  }
  if (!description.tiles.empty()) rows.emplace_back("tiles", description.tiles + ", of slides");
  if (!description.licence.empty()) rows.emplace_back("licence", description.licence);
  if (description.dark_background) rows.emplace_back("background", "dark; images with a bright border are inverted");
  for (const std::string& assumption : description.assumptions) rows.emplace_back("assumed", assumption);
  return rows;
}

}  // namespace qkv::app
