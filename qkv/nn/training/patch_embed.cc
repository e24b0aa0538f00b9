#include "qkv/nn/training/patch_embed.h"

#include <algorithm>

#include "qkv/nn/patch_embed.h"
#include "qkv/nn/ranges.h"
#include "qkv/nn/rows.h"

namespace qkv::nn {
namespace {

// Views [B, N, D] as one matrix, so that the layer needs one product; copies it if there are gaps between images.
template <typename T>
View<const T> Joined(View<const T> x, Arena& arena) {
  if (IsOneMatrix(x)) return AsOneMatrix(x);
  const int64_t N = x.dim(1), D = x.dim(2);
  const View<T> joined = arena.New<T>({x.dim(0) * N, D});
  ForRowRanges(joined.dim(0), D, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) std::copy_n(x.at(r / N, r % N), D, joined.row(r));
  });
  return joined;
}

}  // namespace

template <typename T>
void PatchEmbedForward(View<const T> pixels, const PatchEmbedParameters<const T>& p, const PatchEmbedSettings& settings,
                       View<T> tokens, PatchEmbedCache<T>& cache, Arena& arena) {
  const int64_t B = tokens.dim(0), N = tokens.dim(1), D = tokens.dim(2), features = p.projection.weight.dim(1);
  cache = {};
  cache.patches = arena.New<T>({B * N, features});
  if (!p.norm_in.empty()) cache.patch_moments = arena.New<T>({B * N, 2});
  if (!p.norm_out.empty()) {
    cache.projected = arena.New<T>({B * N, D});
    cache.projected_moments = arena.New<T>({B * N, 2});
  }
  const Arena::Scope scope(arena);
  CutPatches<T>(pixels, settings.patch_height, settings.patch_width, settings.channel_last, cache.patches);
  View<T> inputs = cache.patches;
  if (!p.norm_in.empty()) {
    inputs = arena.New<T>(cache.patches.shape());
    NormForward<T>(cache.patches, p.norm_in, inputs, cache.patch_moments);
  }
  if (p.norm_out.empty()) {
    ForEachMatrix([&](View<const T> from, View<T> to) { LinearForward<T>(from, p.projection, to); },
                  View<const T>(inputs.reshape({B, N, features})), tokens);
    return;
  }
  LinearForward<T>(inputs, p.projection, cache.projected);
  ForEachMatrix([&](View<const T> from, View<T> moments, View<T> to) { NormForward<T>(from, p.norm_out, to, moments); },
                View<const T>(cache.projected.reshape({B, N, D})), cache.projected_moments.reshape({B, N, 2}), tokens);
}

template <typename T>
void PatchEmbedBackward(const PatchEmbedParameters<const T>& p, const PatchEmbedCache<T>& cache, View<const T> dtokens,
                        const PatchEmbedParameters<T>& d, Arena& arena) {
  const Arena::Scope scope(arena);
  View<const T> dprojected = Joined(dtokens, arena);
  if (!p.norm_out.empty()) {
    const View<T> dx = arena.New<T>(cache.projected.shape());
    NormBackward<T>(cache.projected, cache.projected_moments, p.norm_out, dprojected, dx, false, d.norm_out);
    dprojected = dx;
  }
  if (p.norm_in.empty()) return LinearBackward<T>(cache.patches, p.projection, dprojected, {}, false, d.projection);
  const View<T> normed = arena.New<T>(cache.patches.shape()), dnormed = arena.New<T>(cache.patches.shape());
  Renormalise<T>(cache.patches, cache.patch_moments, p.norm_in, normed);
  LinearBackward<T>(normed, p.projection, dprojected, dnormed, false, d.projection);
  NormBackward<T>(cache.patches, cache.patch_moments, p.norm_in, dnormed, {}, false, d.norm_in);
}

#define QKV_INSTANTIATE(T)                                                                                         \
  template void PatchEmbedForward(View<const T>, const PatchEmbedParameters<const T>&, const PatchEmbedSettings&,  \
                                  View<T>, PatchEmbedCache<T>&, Arena&);                                           \
  template void PatchEmbedBackward(const PatchEmbedParameters<const T>&, const PatchEmbedCache<T>&, View<const T>, \
                                   const PatchEmbedParameters<T>&, Arena&);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)
#undef QKV_INSTANTIATE

}  // namespace qkv::nn
