#include "qkv/nn/probe.h"

#include <fmt/format.h>

namespace qkv::nn {

std::string Site::Name() const {
  return block < 0 ? fmt::format("{}{}", layer, name) : fmt::format("blocks.{}.{}{}", block, layer, name);
}

std::vector<std::string> ActivationNames(const BlockConfig& c, int64_t block) {
  std::vector<std::string> names;
  const auto add = [&](std::string_view layer, std::initializer_list<std::string_view> of_layer) {
    for (const std::string_view name : of_layer) names.push_back(Site{block, layer, name}.Name());
  };
  const auto add_attention = [&](std::string_view layer, std::string_view norm) {
    if (NormsInputs(c.norm_place)) add("", {norm});
    add(layer, {"q", "k", "v", "scores", "weights", "heads", "out"});
    if (c.norm_place == NormPlace::kAfter) add("", {norm});
  };
  add("", {"resid_pre"});
  add_attention("attn.", "norm1");
  if (c.norm_place != NormPlace::kParallel) add("", {"resid_mid"});
  if (c.cross) add_attention("cross.", "norm_cross"), add("", {"resid_cross"});
  if (NormsInputs(c.norm_place)) add("", {"norm2"});
  add("mlp.", {"hidden", "out"});
  if (c.norm_place == NormPlace::kAfter) add("", {"norm2"});
  add("", {"resid_post"});
  return names;
}

}  // namespace qkv::nn
