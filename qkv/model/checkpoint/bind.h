// Binds the tensors of a whole model of any family.
#pragma once

#include <vector>

#include "qkv/model/config/caption_decoder.h"
#include "qkv/model/config/text_tower.h"
#include "qkv/model/layout/bound_tensor.h"

namespace qkv::model {

/// Finds every tensor of the configuration, in the table's order. Strict: throws Error that names all missing,
/// misshaped and unused tensors. Shapes are compared without axes of extent 1.
std::vector<BoundTensor> Bind(const VitConfig& config, const io::TensorSet& tensors);

/// The tensors of an image encoder and of its companion, a text encoder or a decoder, in the tables' orders; without
/// either (null) as above. Strict likewise: a tensor must belong to a part.
struct BoundTowers {
  std::vector<BoundTensor> image, text, decoder;
};
BoundTowers BindTowers(const VitConfig& config, const TextTower* text, const CaptionDecoder* decoder,
                       const io::TensorSet& tensors);

}  // namespace qkv::model
