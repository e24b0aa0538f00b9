// Prepares images of requests for a model.
#pragma once

#include <memory>
#include <vector>

#include "qkv/app/images/pipeline.h"
#include "qkv/server/context.h"
#include "qkv/server/request_input.h"

namespace qkv::server {

/// The model's input for each image. Throws HttpError 400 that names the image, and Cancelled if this thread's
/// CancelScope is cancelled.
std::vector<Tensor<float>> PixelsOf(Context& context, const Call& call, const model::Model& model,
                                    const std::vector<Upload>& images);

/// Results of passes over a few images at a time, between which other work may run and the call may be cancelled:
/// logits [C], pooled [D] or tokens [N, D] of each. pixels: as PassTask. Throws model::AnswerError if one is not
/// finite.
std::vector<Tensor<float>> ComputePasses(Context& context, const Call& call,
                                         const std::shared_ptr<const LoadedModel>& model, app::Wanted wanted,
                                         std::vector<Tensor<float>> pixels);

}  // namespace qkv::server
