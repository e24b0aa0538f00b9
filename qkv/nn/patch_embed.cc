#include "qkv/nn/patch_embed.h"

#include <algorithm>

#include "qkv/core/parallel.h"
#include "qkv/nn/rows.h"

namespace qkv::nn {
namespace {

// Writes the features of a patch in sequence, into pieces of `width` elements that lie `distance` apart.
template <typename T>
class Features {
 public:
  Features(T* to, int64_t width, int64_t distance) : to_(to), width_(width), distance_(distance) {}

  void Add(const T* from, int64_t count) {
    while (count > 0) {
      const int64_t some = std::min(count, width_ - at_);
      std::copy_n(from, some, to_ + at_);
      from += some, count -= some, at_ += some;
      if (at_ == width_) to_ += distance_, at_ = 0;
    }
  }
  void Add(T value) {
    to_[at_] = value;
    if (++at_ == width_) to_ += distance_, at_ = 0;
  }

 private:
  T* to_;
  int64_t width_, distance_, at_ = 0;
};

// Copies one patch with its top left corner at (top, left) in the order of the projection's inputs.
template <typename T>
void CopyPatch(View<const T> image, int64_t top, int64_t left, int64_t height, int64_t width, bool channel_last,
               Features<T> to) {
  const int64_t C = image.dim(0);
  if (!channel_last) {
    for (int64_t c = 0; c < C; ++c) {
      for (int64_t y = 0; y < height; ++y) to.Add(image.at(c, top + y, left), width);
    }
    return;
  }
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < C; ++c) to.Add(*image.at(c, top + y, left + x));
    }
  }
}

}  // namespace

template <typename T>
void CutPatches(View<const T> pixels, int64_t patch_height, int64_t patch_width, bool channel_last, View<T> patches) {
  const int64_t B = pixels.dim(0), grid_h = pixels.dim(2) / patch_height, grid_w = pixels.dim(3) / patch_width;
  const int64_t count = B * grid_h * grid_w, features = pixels.dim(1) * patch_height * patch_width;
  const bool chunks = patches.rank() == 3;
  const int64_t width = chunks ? simd::kRowChunk : features;
  Require(chunks ? patches.shape() == Shape({count, features / width, width}) && features % width == 0
                 : patches.shape() == Shape({count, features}),
          "patch_embed: pixels {} in patches of {}x{} are not {}", pixels.shape(), patch_height, patch_width,
          patches.shape());
  ParallelFor(B * grid_h, 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const View<const T> image = pixels[row / grid_h];
      for (int64_t column = 0; column < grid_w; ++column) {
        CopyPatch(image, row % grid_h * patch_height, column * patch_width, patch_height, patch_width, channel_last,
                  Features<T>(patches.at(row * grid_w + column), width, chunks ? patches.stride(1) : 0));
      }
    }
  });
}

namespace {

// PatchEmbedForward of patches that are cut at once.
template <typename T>
void EmbedRows(View<const T> pixels, const PatchEmbed<T>& embed, View<T> tokens, Arena& arena) {
  const Arena::Scope scope(arena);
  const View<T> rows = AsOneMatrix(tokens);
  const bool chunks = embed.projection.reads_chunks() && embed.norm_in.empty();
  const View<T> patches = AsOneMatrix(NewRows<T>(1, rows.dim(0), embed.projection.weight.inputs(), chunks, arena));
  CutPatches<T>(pixels, embed.patch_height, embed.patch_width, embed.channel_last, patches);
  if (!embed.norm_in.empty()) NormForward<T>(patches, embed.norm_in, patches);
  LinearForward<T>(patches, embed.projection, rows);
  if (!embed.norm_out.empty()) NormForward<T>(rows, embed.norm_out, rows);
}

}  // namespace

template <typename T>
void PatchEmbedForward(View<const T> pixels, const PatchEmbed<T>& embed, View<T> tokens, Arena& arena) {
  const int64_t grid_h = pixels.dim(2) / embed.patch_height, grid_w = pixels.dim(3) / embed.patch_width;
  const int64_t N = tokens.dim(1);
  // Rows of the grid.
  const int64_t rows = grid_h * grid_w == N ? RowsTogether<T>(N, embed.projection.weight.inputs()) / grid_w : 0;
  if (rows == 0 || rows >= grid_h) return EmbedRows(pixels, embed, tokens, arena);
  for (int64_t b = 0; b < pixels.dim(0); ++b) {
    const View<const T> image = pixels.slice(0, b, b + 1);
    for (int64_t row = 0; row < grid_h; row += rows) {
      const int64_t end = std::min(grid_h, row + rows);
      EmbedRows<T>(image.slice(2, row * embed.patch_height, end * embed.patch_height), embed,
                   tokens.slice(0, b, b + 1).slice(1, row * grid_w, end * grid_w), arena);
    }
  }
}

template void CutPatches(View<const float>, int64_t, int64_t, bool, View<float>);
template void CutPatches(View<const double>, int64_t, int64_t, bool, View<double>);
template void PatchEmbedForward(View<const float>, const PatchEmbed<float>&, View<float>, Arena&);
template void PatchEmbedForward(View<const double>, const PatchEmbed<double>&, View<double>, Arena&);

}  // namespace qkv::nn
