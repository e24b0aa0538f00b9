#include "qkv/nn/patch_embed.h"

#include "qkv/core/parallel.h"
#include "qkv/nn/rows.h"

namespace qkv::nn {
namespace {

// Copies one patch, whose corner is `from`, into the features that the projection expects.
template <typename T>
void CopyPatch(View<const T> image, int64_t top, int64_t left, const PatchEmbed<T>& embed, T* to) {
  const int64_t C = image.dim(0), Ph = embed.patch_height, Pw = embed.patch_width;
  if (!embed.channel_last) {
    for (int64_t c = 0; c < C; ++c) {
      for (int64_t y = 0; y < Ph; ++y, to += Pw) std::copy_n(image.at(c, top + y, left), Pw, to);
    }
    return;
  }
  for (int64_t y = 0; y < Ph; ++y) {
    for (int64_t x = 0; x < Pw; ++x) {
      for (int64_t c = 0; c < C; ++c) *to++ = *image.at(c, top + y, left + x);
    }
  }
}

}  // namespace

template <typename T>
void PatchEmbedForward(View<const T> pixels, const PatchEmbed<T>& embed, View<T> tokens, Arena& arena) {
  const Arena::Scope scope(arena);
  const int64_t B = pixels.dim(0), grid_h = pixels.dim(2) / embed.patch_height,
                grid_w = pixels.dim(3) / embed.patch_width, features = embed.projection.weight.inputs();
  Require(pixels.dim(1) * embed.patch_height * embed.patch_width == features && tokens.dim(1) == grid_h * grid_w,
          "patch_embed: pixels {} and patches of {}x{} do not fit {} features and tokens {}", ToString(pixels.shape()),
          embed.patch_height, embed.patch_width, features, ToString(tokens.shape()));
  const View<T> patches = arena.New<T>({B * grid_h * grid_w, features});
  ParallelFor(B * grid_h, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const View<const T> image = pixels[row / grid_h];
      for (int64_t column = 0; column < grid_w; ++column) {
        CopyPatch(image, row % grid_h * embed.patch_height, column * embed.patch_width, embed,
                  patches.row(row * grid_w + column));
      }
    }
  });
  if (!embed.norm_in.empty()) NormForward<T>(patches, embed.norm_in, patches);
  LinearForward<T>(patches, embed.projection, AsOneMatrix(tokens));
  if (!embed.norm_out.empty()) NormForward<T>(AsOneMatrix(tokens), embed.norm_out, AsOneMatrix(tokens));
}

template void PatchEmbedForward(View<const float>, const PatchEmbed<float>&, View<float>, Arena&);
template void PatchEmbedForward(View<const double>, const PatchEmbed<double>&, View<double>, Arena&);

}  // namespace qkv::nn
