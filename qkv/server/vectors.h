// Vectors of images and texts, as every protocol gives them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "qkv/app/embed.h"
#include "qkv/server/context.h"

namespace qkv::server {

/// What becomes the vector of an image: as the entry says, or as the model's authors take it. Throws Error if the
/// entry's is none.
app::Pooling PoolingOf(const ModelFacts& facts);

/// A vector of each image: by the entry's pooling; of a model with two towers of unit length. pixels: [1, channels,
/// height, width] of each; names: for errors. Throws model::AnswerError if one is not finite, or has
/// no direction.
std::vector<std::vector<float>> ImageVectors(Context& context, const Call& call,
                                             const std::shared_ptr<const LoadedModel>& model,
                                             std::vector<Tensor<float>> pixels, const std::vector<std::string>& names);

/// A vector of unit length of each text, by the text tower or an encoder of texts, which the model has or is.
std::vector<std::vector<float>> TextVectors(Context& context, const Call& call,
                                            const std::shared_ptr<const LoadedModel>& model,
                                            std::vector<std::string> texts);

}  // namespace qkv::server
