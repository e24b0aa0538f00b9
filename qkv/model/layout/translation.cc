#include "qkv/model/layout/translation.h"

#include "qkv/model/config/separation.h"

namespace qkv::model {

Obstructions CommonObstructions(const VitConfig& c, std::string_view who) {
  const auto has_no = [&](std::string_view what) { return fmt::format("{} has no {}", who, what); };
  return {
      {c.patch_norms || c.embed_norm, has_no("norm around the patch projection")},
      {c.block.norm.kind != simd::NormKind::kLayer, has_no("RMSNorm that a config.json can select")},
      {c.block.norm_place == nn::NormPlace::kOutput, has_no("norm of the layers' outputs")},
      {c.block.norm_place == nn::NormPlace::kParallel, has_no("MLP beside attention")},
      {c.positions == Positions::kSinCos, has_no("positions that are computed (sines and cosines)")},
      {c.block.attention.joined_width() != c.block.width,
       fmt::format("{}, but {} heads of {} features are not {}", has_no("width of heads of its own"),
                   c.block.attention.heads, c.block.attention.head_width, c.block.width)},
      {!c.block.attention.projection, has_no("attention without an output projection")},
      {c.projection_width > 0, has_no("projection of the pooled vector into a space shared with texts")},
      {c.detection_tokens > 0, has_no("detection tokens")},
      {c.query_tokens > 0, has_no("query tokens")},
      {c.head_norm, has_no("LayerNorm in the classifier")},
      {!SeparationObstruction(c).empty(),
       fmt::format("{}: {}", has_no(fmt::format("{} attention", Name(c.block.attention.kind))),
                   SeparationObstruction(c))},
      {c.block.mlp.gate == simd::Gate::kLast, has_no("gate in the second half of the MLP's first layer")},
  };
}

void RefuseObstructed(const VitConfig& config, Family target, const Obstructions& obstructions) {
  std::string reasons;
  for (const auto& [there, reason] : obstructions) {
    if (there) reasons += "\n  " + reason;
  }
  Require(reasons.empty(), "convert: {} ({}) cannot be written for {}:{}", config.architecture, Name(config.family),
          Name(target), EscapedText{reasons});
}

bool PreprocessesToTrainedSize(const Description& description) {
  const VitConfig& c = description.config;
  // The output size does not depend on the image, unless images keep their size.
  const Shape shape = image::OutputShape(description.preprocess, c.image_height, c.image_width);
  return shape[1] == c.image_height && shape[2] == c.image_width;
}

void NoteOtherSizes(const Description& description, Family target, Interpolation interpolation,
                    std::vector<std::string>* notes) {
  const VitConfig& c = description.config;
  const bool square = c.image_height == c.image_width;
  if (c.family == target || (c.positions != Positions::kLearned && !c.has_relative_biases())) return;
  if (c.interpolation == interpolation && square && !c.has_relative_biases()) return;
  notes->push_back(fmt::format(
      "at other sizes than {}x{} {} interpolates the positions in its own way: logits differ there{}", c.image_height,
      c.image_width, Name(target),
      PreprocessesToTrainedSize(description) ? "" : ", and this model's preprocessing makes images of another size"));
}

std::vector<std::string> Differences(const VitConfig& a, const VitConfig& b) {
  std::vector<std::string> differences;
  const auto compare = [&](std::string_view what, const auto& x, const auto& y) {
    if (x != y) differences.emplace_back(what);
  };
  compare("the image's height", a.image_height, b.image_height);
  compare("the image's width", a.image_width, b.image_width);
  compare("the patch's height", a.patch_height, b.patch_height);
  compare("the patch's width", a.patch_width, b.patch_width);
  compare("the number of channels", a.channels, b.channels);
  compare("the width", a.block.width, b.block.width);
  compare("the depth", a.depth, b.depth);
  compare("the number of heads", a.block.attention.heads, b.block.attention.heads);
  compare("the width of a head", a.block.attention.head_width, b.block.attention.head_width);
  compare("the MLP's width", a.block.mlp.width, b.block.mlp.width);
  compare("the patch projection's bias", a.patch_bias, b.patch_bias);
  compare("LayerNorm around the patch projection", a.patch_norms, b.patch_norms);
  compare("the norm after the patch projection", a.embed_norm, b.embed_norm);
  compare("the class token", a.class_token, b.class_token);
  compare("the distillation token", a.distillation_token, b.distillation_token);
  compare("the register tokens", a.registers, b.registers);
  compare("the detection tokens", a.detection_tokens, b.detection_tokens);
  compare("the query tokens", a.query_tokens, b.query_tokens);
  compare("the blocks with query tokens", a.query_blocks, b.query_blocks);
  compare("the positions", a.positions, b.positions);
  compare("the positions that are added after blocks", a.position_blocks(), b.position_blocks());
  compare("the blocks' biases by relative position", a.block.attention.bias_rows, b.block.attention.bias_rows);
  compare("the shared biases by relative position", a.shared_biases, b.shared_biases);
  compare("the rotary positions", a.rotary, b.rotary);
  if (a.rotary != PatchRotary::kNone) {
    compare("the base of rotary positions", a.rotary_base, b.rotary_base);
    compare("the grid of rotary positions", a.rotary_grid_height, b.rotary_grid_height);
    compare("the scale of rotary positions", a.rotary_scales, b.rotary_scales);
    compare("the offset of rotary positions", a.rotary_offset, b.rotary_offset);
    compare("the order of rotary axes", a.rotary_columns_first, b.rotary_columns_first);
  }
  compare("the kind of norm", a.block.norm.kind, b.block.norm.kind);
  compare("the norms' biases", a.block.norm.has_bias(), b.block.norm.has_bias());
  compare("the place of the norms", a.block.norm_place, b.block.norm_place);
  compare("LayerNorm before the blocks", a.pre_norm, b.pre_norm);
  compare("LayerNorm before the output projection", a.block.attention.output_norm, b.block.attention.output_norm);
  compare("LayerNorm inside the MLP", a.block.mlp.norm, b.block.mlp.norm);
  compare("the final LayerNorm", a.final_norm, b.final_norm);
  compare("LayerNorm after pooling", a.fc_norm, b.fc_norm);
  compare("the kind of attention", a.block.attention.kind, b.block.attention.kind);
  compare("the number of key heads", a.block.attention.kv_heads(), b.block.attention.kv_heads());
  compare("the window to the left", a.block.attention.window_left, b.block.attention.window_left);
  compare("the window to the right", a.block.attention.window_right, b.block.attention.window_right);
  compare("attention sinks", a.block.attention.sinks, b.block.attention.sinks);
  compare("the width of queries and keys", a.block.attention.query_width(), b.block.attention.query_width());
  compare("LayerNorm on queries and keys", a.block.attention.qk_norm, b.block.attention.qk_norm);
  compare("the biases of queries, keys and values", a.block.attention.bias, b.block.attention.bias);
  // A bias of zero is none.
  compare("the biases of keys", a.block.attention.bias && a.block.attention.key_bias && !b.block.attention.key_bias,
          false);
  compare("the output projection", a.block.attention.projection, b.block.attention.projection);
  if (a.block.attention.projection) {
    compare("the output projection's bias", a.block.attention.projection_bias, b.block.attention.projection_bias);
  }
  compare("the MLP's biases", a.block.mlp.bias, b.block.mlp.bias);
  compare("LayerScale", a.block.layer_scale, b.block.layer_scale);
  compare("the MLP's kind", a.block.mlp.gate, b.block.mlp.gate);
  compare("the activation", a.block.mlp.activation, b.block.mlp.activation);
  compare("the pooling", a.pool, b.pool);
  if (a.pool != Pool::kToken && a.pool != Pool::kTokenAndMean && a.prefix() > 0) {
    compare("the tokens that are pooled", a.pool_prefix, b.pool_prefix);
  }
  if (a.pool == Pool::kMap) compare("the width of the pooling's MLP", a.map_mlp_width, b.map_mlp_width);
  if (a.pool == Pool::kMap) compare("the pooling's heads", a.pool_heads(), b.pool_heads());
  compare("the pooler's width", a.pooler_width, b.pooler_width);
  if (a.pooler_width > 0) compare("the pooler's activation", a.pooler_activation, b.pooler_activation);
  compare("the projection's width", a.projection_width, b.projection_width);
  if (a.projection_width > 0) compare("the projection's bias", a.projection_bias, b.projection_bias);
  compare("LayerNorm in the classifier", a.head_norm, b.head_norm);
  compare("scores of classes (\"problem_type\")", a.scores, b.scores);
  compare("the number of classes", a.classes, b.classes);
  compare("the distillation head", a.distillation_head, b.distillation_head);
  compare("the classes of objects", a.detection_classes, b.detection_classes);
  compare("the classes of masks", a.mask_classes, b.mask_classes);
  compare("the doublings of the grid of masks", a.mask_doublings, b.mask_doublings);
  if (a.mask_classes > 0) compare("the activation of the heads of masks", a.mask_activation, b.mask_activation);
  return differences;
}

}  // namespace qkv::model
