#include "qkv/app/models/sequence_info.h"

#include <fmt/format.h>

#include "qkv/model/layout/cost.h"
#include "qkv/report/text.h"

namespace qkv::app {

std::string DescribeSequence(const model::SequenceConfig& c) {
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

io::Json SequenceJson(const model::SequenceConfig& c) {
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

io::Json SequenceInfoJson(const model::SequenceCheckpoint& checkpoint) {
  io::Json json = SequenceJson(checkpoint.config);
  json["source"] = checkpoint.source, json["architecture"] = model::SequenceConfig::kArchitecture;
  json["parameters"] = model::Parameters(checkpoint.config);
  return json;
}

std::vector<std::pair<std::string, std::string>> SequenceInfoLines(const model::SequenceCheckpoint& checkpoint) {
  const model::SequenceConfig& c = checkpoint.config;
  return {{"source", checkpoint.source},
          {"family", "sequence model of qkv train"},
          {c.causal ? "decoder" : "encoder", DescribeSequence(c)},
          {"attention", std::string(model::Name(c.block.attention.kind))},
          {"reads", fmt::format("up to {} of {} {}", c.length, c.vocabulary, model::Name(c.meaning))},
          {"parameters", report::WithCommas(model::Parameters(c))}};
}

}  // namespace qkv::app
