#include "qkv/app/text_info.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "qkv/app/json_line.h"
#include "qkv/model/checkpoint/tensor_table.h"
#include "qkv/report/text.h"

namespace qkv::app {
namespace {

// Elements of the stored tensors that the model uses, each once.
int64_t CountParameters(const model::TextCheckpoint& checkpoint) {
  std::set<const io::StoredTensor*> used;
  for (const auto* part : {&checkpoint.encoder, &checkpoint.decoder}) {
    for (const model::BoundTensor& bound : *part) used.insert(bound.parts.begin(), bound.parts.end());
  }
  int64_t elements = 0;
  for (const io::StoredTensor* tensor : used) elements += tensor->shape.size();
  return elements;
}

// "12 blocks of width 768, 12 heads of 64 (4 of keys), MLP 3072 (gated silu), RMSNorm before"
std::string DescribePart(const model::SequenceConfig& c) {
  const nn::AttentionConfig& a = c.block.attention;
  std::string text =
      fmt::format("{} blocks of width {}, {} heads of {}", c.depth, c.block.width, a.heads, a.head_width);
  if (a.groups_heads()) text += fmt::format(", {} heads of keys", a.kv_heads());
  text +=
      fmt::format(", MLP {} ({}{}), {} {} the layers", c.block.mlp.width,
                  c.block.mlp.gate == simd::Gate::kNone ? "" : "gated ", model::Name(c.block.mlp.activation),
                  c.block.norm.kind == simd::NormKind::kRms ? "RMSNorm" : "LayerNorm", model::Name(c.block.norm_place));
  text += fmt::format(", {} positions", model::Name(c.positions));
  if (a.qk_norm) text += ", norms on q and k";
  if (a.window_left >= 0) text += fmt::format(", a window of {} tokens", a.window_left + 1);
  if (c.block.cross) text += ", cross-attention";
  return text;
}

io::Json PartJson(const model::SequenceConfig& c) {
  const nn::AttentionConfig& a = c.block.attention;
  return {{"depth", c.depth},
          {"width", c.block.width},
          {"heads", a.heads},
          {"head_width", a.head_width},
          {"key_heads", a.kv_heads()},
          {"mlp_width", c.block.mlp.width},
          {"vocabulary", c.vocabulary},
          {"length", c.length},
          {"positions", model::Name(c.positions)},
          {"cross_attention", c.block.cross.has_value()}};
}

// Tokens of a text that commands take.
int64_t UsualLength(const model::TextDescription& d) {
  int64_t length = (d.encoder ? *d.encoder : *d.decoder).length;
  if (d.encoder && !d.decoder && d.sentence.length > 0) length = std::min(length, d.sentence.length);
  return d.trained_length > 0 ? std::min(length, d.trained_length) : length;
}

std::string DescribeSentence(const model::SentenceEmbedding& sentence) {
  return fmt::format("{} of the tokens{}", model::Name(sentence.pool), sentence.normalise ? ", of unit length" : "");
}

}  // namespace

io::Json TextInfoJson(const model::TextCheckpoint& checkpoint) {
  const model::TextDescription& d = checkpoint.description;
  io::Json json = {{"source", checkpoint.source},   {"architecture", d.architecture},
                   {"model_type", d.model_type},    {"parameters", CountParameters(checkpoint)},
                   {"text_length", UsualLength(d)}, {"assumptions", d.assumptions}};
  if (d.encoder) json["encoder"] = PartJson(*d.encoder);
  if (d.decoder) json["decoder"] = PartJson(*d.decoder);
  if (d.encoder && !d.decoder) {
    json["pooling"] = model::Name(d.sentence.pool);
    json["normalise"] = d.sentence.normalise;
  }
  return json;
}

std::vector<std::pair<std::string, std::string>> TextInfoLines(const model::TextCheckpoint& checkpoint) {
  const model::TextDescription& d = checkpoint.description;
  std::vector<std::pair<std::string, std::string>> lines = {
      {"source", checkpoint.source}, {"family", fmt::format("{} (Hugging Face)", d.architecture)}};
  if (d.encoder) lines.emplace_back("encoder", DescribePart(*d.encoder));
  if (d.decoder) lines.emplace_back("decoder", DescribePart(*d.decoder));
  const model::SequenceConfig& reads = d.encoder ? *d.encoder : *d.decoder;
  lines.emplace_back("texts", fmt::format("up to {} of {} tokens", UsualLength(d), reads.vocabulary));
  if (d.encoder && !d.decoder) lines.emplace_back("vector", DescribeSentence(d.sentence));
  lines.emplace_back("parameters", report::WithCommas(CountParameters(checkpoint)));
  for (const std::string& assumption : d.assumptions) lines.emplace_back("assumed", assumption);
  return lines;
}

}  // namespace qkv::app
