#include "qkv/server/images.h"

#include <algorithm>
#include <iterator>

#include "qkv/server/tasks.h"

namespace qkv::server {

std::vector<Tensor<float>> PixelsOf(Context& context, const Call& call, const model::Model& model,
                                    const std::vector<Upload>& images) {
  std::vector<Tensor<float>> pixels;
  for (const Upload& image : images) {
    if (!pixels.empty() && call.cancelled()) throw Cancelled();
    const image::Image decoded = context.Decode(call, image.data(), image.name());
    try {
      pixels.push_back(context.Pixels(call, model, decoded));
      call.memory->Release(Context::BytesOf(decoded));
    } catch (const HttpError&) {
      throw;
    } catch (const Error& error) {
      BadRequest(FormatShown("{}: {}", image.name(), error.what()));
    }
  }
  return pixels;
}

std::vector<Tensor<float>> ComputePasses(Context& context, const Call& call,
                                         const std::shared_ptr<const LoadedModel>& model, app::Wanted wanted,
                                         std::vector<Tensor<float>> pixels) {
  const auto most = static_cast<size_t>(context.config().batching.most_together);
  std::vector<Tensor<float>> results;
  for (size_t begin = 0; begin < pixels.size(); begin += most) {
    const auto from = pixels.begin() + static_cast<int64_t>(begin);
    const auto to = from + static_cast<int64_t>(std::min(most, pixels.size() - begin));
    PassTask task(model, wanted, {std::make_move_iterator(from), std::make_move_iterator(to)});
    context.Compute(task, call);
    for (Tensor<float>& result : task.TakeResults()) results.push_back(std::move(result));
  }
  return results;
}

}  // namespace qkv::server
