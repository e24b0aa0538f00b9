#include "qkv/nn/patch_embed.h"

#include "qkv/core/parallel.h"
#include "qkv/nn/rows.h"

namespace qkv::nn {
namespace {

// Copies one patch, whose corner is at (top, left), into the features that the projection expects.
template <typename T>
void CopyPatch(View<const T> image, int64_t top, int64_t left, int64_t height, int64_t width, bool channel_last,
               T* to) {
  const int64_t C = image.dim(0);
  if (!channel_last) {
    for (int64_t c = 0; c < C; ++c) {
      for (int64_t y = 0; y < height; ++y, to += width) std::copy_n(image.at(c, top + y, left), width, to);
    }
    return;
  }
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < C; ++c) *to++ = *image.at(c, top + y, left + x);
    }
  }
}

}  // namespace

template <typename T>
void CutPatches(View<const T> pixels, int64_t patch_height, int64_t patch_width, bool channel_last, View<T> patches) {
  const int64_t B = pixels.dim(0), grid_h = pixels.dim(2) / patch_height, grid_w = pixels.dim(3) / patch_width;
  Require(patches.shape() == Shape({B * grid_h * grid_w, pixels.dim(1) * patch_height * patch_width}),
          "patch_embed: pixels {} in patches of {}x{} are not {}", pixels.shape(), patch_height, patch_width,
          patches.shape());
  ParallelFor(B * grid_h, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const View<const T> image = pixels[row / grid_h];
      for (int64_t column = 0; column < grid_w; ++column) {
        CopyPatch(image, row % grid_h * patch_height, column * patch_width, patch_height, patch_width, channel_last,
                  patches.row(row * grid_w + column));
      }
    }
  });
}

template <typename T>
void PatchEmbedForward(View<const T> pixels, const PatchEmbed<T>& embed, View<T> tokens, Arena& arena) {
  const Arena::Scope scope(arena);
  const View<T> rows = AsOneMatrix(tokens);
  const View<T> patches = arena.New<T>({rows.dim(0), embed.projection.weight.inputs()});
  CutPatches<T>(pixels, embed.patch_height, embed.patch_width, embed.channel_last, patches);
  if (!embed.norm_in.empty()) NormForward<T>(patches, embed.norm_in, patches);
  LinearForward<T>(patches, embed.projection, rows);
  if (!embed.norm_out.empty()) NormForward<T>(rows, embed.norm_out, rows);
}

template void CutPatches(View<const float>, int64_t, int64_t, bool, View<float>);
template void CutPatches(View<const double>, int64_t, int64_t, bool, View<double>);
template void PatchEmbedForward(View<const float>, const PatchEmbed<float>&, View<float>, Arena&);
template void PatchEmbedForward(View<const double>, const PatchEmbed<double>&, View<double>, Arena&);

}  // namespace qkv::nn
