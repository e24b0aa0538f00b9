#include "qkv/app/capture/capture.h"

#include <fmt/format.h>

#include <cmath>

#include "qkv/core/memory.h"

namespace qkv::app {
Captured Allocate(const model::Model& model, const CaptureRequest& request, int64_t images, int64_t height,
                  int64_t width) {
  const model::VitConfig& c = model.config();
  const int64_t N = model.TokensFor(height, width);
  const double hidden = static_cast<double>(1 + request.hidden.size()) * static_cast<double>(c.block.width);
  const double attention =
      static_cast<double>(request.attention.size()) * static_cast<double>(c.block.attention.heads * N);
  Captured captured;
  const auto for_heads = [&](auto visit) {
    const model::Outputs<float> none;
    model::VisitHeadOutputs(c, images, height / c.patch_height, width / c.patch_width, none, visit);
  };
  double heads = 0;
  for_heads([&](const char*, const Shape& shape, const auto&) { heads += static_cast<double>(shape.size()); });
  RequireMemory(sizeof(float) * (static_cast<double>(images * N) * (hidden + attention) + heads),
                fmt::format("{} hidden states and {} blocks' attention of {} images of {} tokens",
                            request.hidden.size(), request.attention.size(), images, N));
  for_heads([&](const char* name, const Shape& shape, const auto&) { captured[name] = Tensor<float>(shape); });
  captured["tokens"] = Tensor<float>({images, N, c.block.width});
  for (const int64_t index : request.hidden) {
    captured[fmt::format("hidden.{}", index)] = Tensor<float>({images, N, c.block.width});
  }
  for (const int64_t block : request.attention) {
    captured[fmt::format("attention.{}", block)] = Tensor<float>({images, c.block.attention.heads, N, N});
  }
  return captured;
}

void CaptureBatch(const model::Model& model, View<const float> pixels, const CaptureRequest& request, int64_t first,
                  model::Workspace<float>& workspace, Captured& captured) {
  const int64_t B = pixels.dim(0);
  const auto rows = [&](const std::string& name) { return captured.at(name).view().slice(0, first, first + B); };
  Require(request.activations.empty() || captured.at("tokens").dim(0) == B,
          "run: activations are of one pass, and this is a part of the images");
  ActivationProbe probe("", request.activations, &captured);
  model::Outputs<float> outputs{.tokens = rows("tokens"), .probe = probe.ForPass()};
  model::VisitHeadOutputs(model.config(), B, 0, 0, outputs,
                          [&](const char* name, const Shape&, View<float>& out) { out = rows(name); });
  for (const int64_t index : request.hidden) outputs.hidden.push_back({index, rows(fmt::format("hidden.{}", index))});
  for (const int64_t block : request.attention) {
    const View<float> out = rows(fmt::format("attention.{}", block));
    outputs.attention.push_back({block, {0, out.dim(2), out}});
  }
  model.Forward(pixels, workspace, outputs);
}

Tensor<float> ReadPixels(const io::SafeTensors& file, const std::string& path, const model::VitConfig& config) {
  const io::StoredTensor* stored = file.Find("pixels");
  Require(stored != nullptr, "{}: there is no tensor \"pixels\"", path);
  Require(stored->shape.rank() == 4 && stored->shape[1] == config.channels && stored->shape[0] > 0,
          "{}: \"pixels\" is {}, expected [images, {}, height, width]", path, stored->shape, config.channels);
  Tensor<float> pixels = io::Convert<float>(*stored);
  for (const float x : pixels.span()) Require(std::isfinite(x), "{}: \"pixels\" holds NaN or infinity", path);
  return pixels;
}

}  // namespace qkv::app
