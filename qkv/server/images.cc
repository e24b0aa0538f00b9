#include "qkv/server/images.h"

#include <algorithm>
#include <iterator>

#include "qkv/server/tasks.h"

namespace qkv::server {

std::vector<Tensor<float>> PixelsOf(Context& context, const Call& call, const model::Model& model,
                                    const std::vector<Upload>& images) {
  std::vector<Tensor<float>> pixels;
  for (const Upload& image : images) {
    CheckCancelled();
    // One turn for both.
    context.Prepare(call, [&] {
      image::Image decoded = context.Decode(call, image.data(), image.name());
      const int64_t bytes = Context::BytesOf(decoded);
      try {
        pixels.push_back(context.Pixels(call, model, std::move(decoded)));
        call.memory->Release(bytes);
      } catch (const HttpError&) {
        throw;
      } catch (const Error& error) {
        BadRequest(FormatShown("{}: {}", image.name(), error.what()));
      }
    });
  }
  return pixels;
}

std::vector<Tensor<float>> ComputePasses(Context& context, const Call& call,
                                         const std::shared_ptr<const LoadedModel>& model, app::Wanted wanted,
                                         std::vector<Tensor<float>> pixels) {
  std::vector<double> operations;
  for (const Tensor<float>& one : pixels) operations.push_back(PassOperations(*model, one.shape()));
  std::vector<Tensor<float>> results;
  for (auto from = pixels.begin(); from != pixels.end();) {
    const auto to = from + context.Together({model->id(), PassTask::kWork},
                                            std::span(operations).subspan(static_cast<size_t>(from - pixels.begin())));
    const auto task = std::make_shared<PassTask>(
        model, wanted, std::vector<Tensor<float>>(std::make_move_iterator(from), std::make_move_iterator(to)));
    context.Compute(task, call);
    for (Tensor<float>& result : task->TakeResults()) results.push_back(std::move(result));
    from = to;
  }
  return results;
}

}  // namespace qkv::server
