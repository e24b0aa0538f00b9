#include "qkv/server/images.h"

namespace qkv::server {

const model::Model& RequireImageModel(const LoadedModel& model) {
  if (model.image() == nullptr) {
    throw HttpError(400, "invalid_request_error",
                    FormatShown("model {} reads texts, expected one of images", model.id()));
  }
  return *model.image();
}

std::vector<Tensor<float>> PixelsOf(Context& context, const Call& call, const model::Model& model,
                                    const std::vector<Upload>& images) {
  std::vector<Tensor<float>> pixels;
  for (const Upload& image : images) {
    const image::Image decoded = context.Decode(call, image.data(), image.name);
    try {
      pixels.push_back(context.Pixels(call, model, decoded));
      call.memory->GiveBack(Context::BytesOf(decoded));
    } catch (const HttpError&) {
      throw;
    } catch (const Error& error) {
      throw HttpError(400, "invalid_request_error", FormatShown("{}: {}", image.name, error.what()));
    }
  }
  return pixels;
}

}  // namespace qkv::server
