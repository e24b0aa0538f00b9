// Which vector of an image a caller asks for. What a model's own head reads is `Pool` (config/vit_config.h), with
// timm's names; how a sentence model embeds a text is `SentencePool` (config/text_description.h), with those of
// sentence-transformers; which single token a text tower reads is `TokenPool` (config/sequence_config.h).
#pragma once

#include "qkv/core/tensor.h"
#include "qkv/model/config/vit_config.h"

namespace qkv::model {

/// What becomes the vector of an image. All but kModel are taken from the tokens after the final norm.
enum class Pooling {
  kModel,              // input of the classifier, [VitConfig::pooled_width()]
  kClassToken,         // the class token, [D]
  kMean,               // the mean of the patch tokens, [D]
  kClassTokenAndMean,  // both, one after the other, [2 D]
  kTokens,             // no pooling: all tokens, [N, D]
};

/// Length of the vector, or of a token's for kTokens.
int64_t PooledWidth(const VitConfig& config, Pooling pooling);

/// Throws Error if the model has no class token and `pooling` reads it.
void RequirePooling(const VitConfig& config, Pooling pooling);

/// The vector of one image from its tokens after the final norm, [N, D]. Not for kModel.
void PoolTokens(const VitConfig& config, Pooling pooling, View<const float> tokens, float* out);

}  // namespace qkv::model
