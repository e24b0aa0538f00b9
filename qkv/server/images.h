// Images of requests, made ready for a model.
#pragma once

#include <vector>

#include "qkv/server/context.h"
#include "qkv/server/request_input.h"

namespace qkv::server {

/// The encoder of images. Throws HttpError 400 if the model takes none.
const model::Model& RequireImageModel(const LoadedModel& model);

/// The model's input of each image. Throws HttpError 400 that names the image.
std::vector<Tensor<float>> PixelsOf(Context& context, const Call& call, const model::Model& model,
                                    const std::vector<Upload>& images);

}  // namespace qkv::server
