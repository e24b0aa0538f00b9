// Shared by Hugging Face's models with an encoder of images and one of texts, CLIP and SigLIP: names of the blocks'
// tensors, which are those of both towers, and keys of both parts of config.json.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "qkv/io/fields.h"
#include "qkv/io/safetensors.h"
#include "qkv/model/config/sequence_config.h"
#include "qkv/model/layout/tensor_names.h"

namespace qkv::model {

/// The blocks of either tower.
inline constexpr NameRow kHfTowerBlocks[] = {
    {"blocks.{}.norm1", "@encoder.layers.{}.layer_norm1"},
    {"blocks.{}.attn.qkv",
     "@encoder.layers.{}.self_attn.q_proj+@encoder.layers.{}.self_attn.k_proj+@encoder.layers.{}.self_attn.v_proj"},
    {"blocks.{}.attn.proj", "@encoder.layers.{}.self_attn.out_proj"},
    {"blocks.{}.norm2", "@encoder.layers.{}.layer_norm2"},
    {"blocks.{}.mlp.fc1", "@encoder.layers.{}.mlp.fc1"},
    {"blocks.{}.mlp.fc2", "@encoder.layers.{}.mlp.fc2"},
};
/// The text encoder's tensors outside the blocks.
inline constexpr NameRow kHfTextRows[] = {
    {"token_embed", "@embeddings.token_embedding"},
    {"pos_embed", "@embeddings.position_embedding.weight"},
    {"norm", "@final_layer_norm"},
    {"logit_scale", "logit_scale"},
    {"logit_bias", "logit_bias"},
};

/// Buffers of either tower that older versions stored.
inline constexpr std::string_view kHfTowerIgnored[] = {"@embeddings.position_ids"};

/// Values of absent keys of a text encoder's configuration.
struct HfTextDefaults {
  int64_t vocabulary, length, width, heads, hidden;
  std::string_view activation;
  double eps;
};

/// The part `name` of config.json ("text_config", "vision_config"). `name`_dict, which older versions wrote beside it,
/// replaces it. An absent part is empty: all its values are the defaults.
io::Fields HfPart(const io::Fields& config, const std::string& name);
bool HasHfPart(const io::Fields& config, const std::string& name);

/// Vocabulary, length, blocks, activation and eps of a text encoder with learned positions.
SequenceConfig ReadHfText(const io::Fields& config, const HfTextDefaults& defaults);

}  // namespace qkv::model
