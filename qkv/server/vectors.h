// Vectors of images and texts, the same in every protocol.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "qkv/app/vectors/embed.h"
#include "qkv/server/context.h"
#include "qkv/server/request_input.h"

namespace qkv::server {

/// The pooling for images: as the entry says, or as the model's authors use. Throws Error if the entry's is unknown.
app::Pooling PoolingOf(const ModelFacts& facts);

/// Width of an image's vector, or of a text's for a text model.
int64_t EmbeddingWidth(const ModelFacts& facts);

/// A vector of each image: by the entry's pooling; of unit length for a model with two towers. pixels: [1, channels,
/// height, width] of each; names: for errors. Throws model::AnswerError if one is not finite, or has no direction.
std::vector<std::vector<float>> ImageVectors(Context& context, const Call& call,
                                             const std::shared_ptr<const LoadedModel>& model,
                                             std::vector<Tensor<float>> pixels, const std::vector<std::string>& names);

/// Vectors of texts, and the tokens read for each.
struct TextVectors {
  std::vector<std::vector<float>> vectors;  // of unit length, as far as the model's are
  std::vector<int64_t> read;                // tokens of each text that the model read
  std::vector<bool> is_cut;                 // whether the text has more tokens

  int64_t tokens() const;
};

/// What happens to a text with more tokens than the model reads.
enum class LongTexts { kCut, kRefuse };

/// Texts as the model's text tower, or an encoder of texts, reads them. Throws HttpError 413 for a text that is too
/// long, if these are refused.
std::vector<app::TextIds> ReadTexts(Context& context, const Call& call, const LoadedModel& model,
                                    const std::vector<std::string>& texts, LongTexts long_texts = LongTexts::kCut);

/// A vector of each text, from ReadTexts.
TextVectors EmbedTexts(Context& context, const Call& call, const std::shared_ptr<const LoadedModel>& model,
                       std::vector<app::TextIds> texts);

/// The field "truncate", true unless given.
LongTexts LongTextsOf(const RequestInput& input);

}  // namespace qkv::server
