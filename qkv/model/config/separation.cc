#include "qkv/model/config/separation.h"

namespace qkv::model {

VitConfig AsSeparate(VitConfig config) {
  config.block.attention.kind = nn::AttentionKind::kSeparate;
  config.block.attention.qk_width = config.block.attention.key_heads = 0;
  return config;
}

std::string PairObstruction(nn::AttentionKind kind) {
  if (nn::IsPositional(kind)) {
    return fmt::format("scores of {} attention do not come from queries and keys of tokens", Name(kind));
  }
  return kind == nn::AttentionKind::kDifferential ? std::string(kTwoMaps) : "";
}

std::string SeparationObstruction(const VitConfig& c) {
  if (std::string none = PairObstruction(c.block.attention.kind); !none.empty()) return none;
  if (c.block.attention.kind == nn::AttentionKind::kMerged) {
    return "merged attention has a matrix of its own for each head; qkv qk split makes queries and keys of it";
  }
  if (c.rotary != PatchRotary::kNone && c.block.attention.query_width() != c.block.attention.head_width) {
    return fmt::format("rotary positions of {} features turn otherwise than those of a head's {}",
                       c.block.attention.query_width(), c.block.attention.head_width);
  }
  if (c.block.attention.query_width() > c.block.attention.head_width) {
    return fmt::format("queries and keys of {} attention have {} features, more than a head's {} values",
                       Name(c.block.attention.kind), c.block.attention.query_width(), c.block.attention.head_width);
  }
  if (c.block.attention.query_width() < c.block.attention.head_width && c.block.attention.qk_norm) {
    return fmt::format("the LayerNorm on queries and keys is of {} features, a head has {}",
                       c.block.attention.query_width(), c.block.attention.head_width);
  }
  return "";
}

}  // namespace qkv::model
