#include "qkv/nn/training/block.h"

#include <algorithm>

#include "qkv/core/rng.h"
#include "qkv/nn/training/branch.h"
#include "qkv/nn/training/dropout.h"
#include "qkv/nn/training/token_rows.h"

namespace qkv::nn {
namespace {

// What happens to the output of attention (0) or MLP (1) on its way to the tokens.
template <typename T>
struct Branch {
  Branch(const BlockSettings& s, uint64_t which, int64_t rows, View<const T> layer_scale) : scale(layer_scale) {
    const uint64_t seed = ~s.attention.seed;  // the seed itself is that of attention weights
    dropout = {s.dropout, MixSeed(seed, which), s.attention.first_image * rows};
    path = {s.drop_path, MixSeed(seed, 2 + which), s.attention.first_image};
  }

  /// It is added as it is.
  bool plain() const { return scale.empty() && dropout.probability == 0 && path.probability == 0; }

  /// sum = x + what is left of the output, which becomes what LayerScale scales, or may be the sum. All [B·rows, D].
  void Forward(View<T> output, View<T>* factors, View<const T> x, View<T> sum, int64_t B, Arena& arena) const {
    *factors = path.probability > 0 ? arena.New<T>({B}) : View<T>();
    if (path.probability > 0) DrawBranchFactors<T>(path, *factors);
    if (dropout.probability > 0) ApplyDropout<T>(dropout, output);
    const Shape images{B, x.dim(0) / B, x.dim(1)};
    BranchForward<T>(output.reshape(images), scale, *factors, x.reshape(images), sum.reshape(images));
  }

  /// The gradient by the output, from that by the sum: in `to`, or the same. output: as Forward left it.
  View<const T> Backward(View<const T> output, View<const T> factors, View<const T> dsum, int64_t B, View<T> to,
                         View<T> dscale) const {
    if (plain()) return dsum;
    const Shape images{B, dsum.dim(0) / B, dsum.dim(1)};
    BranchBackward<T>(output.reshape(images), scale, factors, dsum.reshape(images), to.reshape(images), dscale);
    if (dropout.probability > 0) ApplyDropout<T>(dropout, to);
    return to;
  }

  View<const T> scale;
  Dropout dropout, path;
};

}  // namespace

template <typename T>
void BlockForward(View<const T> x, int64_t rows, const BlockParameters<const T>& p, const BlockSettings& s, View<T> y,
                  View<T> normed, BlockCache<T>& cache, Arena& arena) {
  const int64_t B = x.dim(0), N = x.dim(1), D = x.dim(2);
  Require(y.shape() == Shape({B, rows, D}) && y.dense() && x.dense(),
          "block: tokens are {}, the output {}, expected [{}, {}, {}]", x.shape(), y.shape(), B, rows, D);
  const View<T> out = y.reshape({B * rows, D});
  cache = {};
  cache.x = x.reshape({B * N, D}), cache.normed = normed;
  cache.moments1 = arena.New<T>({B * N, 2}), cache.moments2 = arena.New<T>({B * rows, 2});
  NormForward<T>(cache.x, p.norm1, static_cast<T>(s.eps), normed, cache.moments1);
  const View<const T> none, normed1 = normed.reshape({B, N, D});
  const View<const T> read = rows < N ? FirstTokens<T>(cache.x, B, rows, arena) : cache.x;
  cache.middle = arena.New<T>({B * rows, D});

  if (const Branch<T> branch(s, 0, rows, p.scale1); branch.plain()) {
    AttentionForward<T>(normed1, rows, p.attention, s.attention, read, cache.middle, cache.attention, arena);
  } else {
    cache.output1 = branch.scale.empty() ? cache.middle : arena.New<T>({B * rows, D});
    AttentionForward<T>(normed1, rows, p.attention, s.attention, none, cache.output1, cache.attention, arena);
    branch.Forward(cache.output1, &cache.factors1, read, cache.middle, B, arena);
  }
  const View<T> normed2 = normed.slice(0, 0, B * rows);
  NormForward<T>(cache.middle, p.norm2, static_cast<T>(s.eps), normed2, cache.moments2);
  if (const Branch<T> branch(s, 1, rows, p.scale2); branch.plain()) {
    MlpForward<T>(normed2, p.mlp, s.mlp, cache.middle, out, cache.mlp, arena);
  } else {
    cache.output2 = branch.scale.empty() ? out : arena.New<T>({B * rows, D});
    MlpForward<T>(normed2, p.mlp, s.mlp, none, cache.output2, cache.mlp, arena);
    branch.Forward(cache.output2, &cache.factors2, cache.middle, out, B, arena);
  }
}

template <typename T>
void BlockBackward(int64_t rows, const BlockParameters<const T>& p, const BlockSettings& s, const BlockCache<T>& cache,
                   View<T> dx, const BlockParameters<T>& d, Arena& arena) {
  const Arena::Scope scope(arena);
  const int64_t B = dx.dim(0), N = dx.dim(1), D = dx.dim(2);
  const Branch<T> branch1(s, 0, rows, p.scale1), branch2(s, 1, rows, p.scale2);
  const View<T> all = dx.reshape({B * N, D});
  const View<T> dread =
      rows < N ? FirstTokens<T>(all, B, rows, arena) : all;  // by y, later by the tokens in the middle
  const View<T> doutput = arena.New<T>({B * rows, D}), dnormed = arena.New<T>({B, N, D});

  const View<T> normed2 = cache.normed.slice(0, 0, B * rows), dnormed2(dnormed.data(), {B * rows, D});
  Renormalise<T>(cache.middle, cache.moments2, p.norm2, normed2);
  MlpBackward<T>(normed2, p.mlp, s.mlp, cache.mlp,
                 branch2.Backward(cache.output2, cache.factors2, dread, B, doutput, d.scale2), dnormed2, false, d.mlp,
                 arena);
  NormBackward<T>(cache.middle, cache.moments2, p.norm2, dnormed2, dread, true, d.norm2);

  Renormalise<T>(cache.x, cache.moments1, p.norm1, cache.normed);
  AttentionBackward<T>(rows, p.attention, s.attention, cache.attention,
                       branch1.Backward(cache.output1, cache.factors1, dread, B, doutput, d.scale1), dnormed,
                       d.attention, arena);
  if (rows < N) {
    std::fill_n(all.data(), all.size(), T(0));
    AddToFirstTokens<T>(dread, B, all);
  }
  NormBackward<T>(cache.x, cache.moments1, p.norm1, dnormed.reshape({B * N, D}), all, true, d.norm1);
}

template void BlockForward(View<const float>, int64_t, const BlockParameters<const float>&, const BlockSettings&,
                           View<float>, View<float>, BlockCache<float>&, Arena&);
template void BlockForward(View<const double>, int64_t, const BlockParameters<const double>&, const BlockSettings&,
                           View<double>, View<double>, BlockCache<double>&, Arena&);
template void BlockBackward(int64_t, const BlockParameters<const float>&, const BlockSettings&,
                            const BlockCache<float>&, View<float>, const BlockParameters<float>&, Arena&);
template void BlockBackward(int64_t, const BlockParameters<const double>&, const BlockSettings&,
                            const BlockCache<double>&, View<double>, const BlockParameters<double>&, Arena&);

}  // namespace qkv::nn
