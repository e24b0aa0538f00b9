// Training of a block: branches with dropout, LayerScale, stochastic depth and norm, then the block from its branches.
#include "qkv/nn/training/block.h"

#include <algorithm>

#include "qkv/core/rng.h"
#include "qkv/nn/training/branch.h"
#include "qkv/nn/training/dropout.h"
#include "qkv/nn/training/token_rows.h"

namespace qkv::nn {
namespace {

// Dropout, LayerScale and stochastic depth between the output of attention (0), MLP (1) or cross-attention (4) and the
// residual sum.
template <typename T>
struct Branch {
  Branch(const BlockSettings& s, uint64_t which, int64_t rows, View<const T> layer_scale) : scale(layer_scale) {
    const uint64_t seed = ~s.attention.seed;  // attention weights use the seed itself
    dropout = {s.dropout, MixSeed(seed, which), s.attention.first_image * rows};
    path = {s.drop_path, MixSeed(seed, 2 + which), s.attention.first_image};
  }

  /// True if the output is added unchanged.
  bool plain() const { return scale.empty() && dropout.probability == 0 && path.probability == 0; }

  /// sum = x + branch(output). Applies dropout to output, which LayerScale then reads; it may be `sum`. All
  /// [B·rows, D].
  void Forward(View<T> output, View<T>* factors, View<const T> x, View<T> sum, int64_t B, Arena& arena) const {
    *factors = path.probability > 0 ? arena.New<T>({B}) : View<T>();
    if (path.probability > 0) DrawBranchFactors<T>(path, *factors);
    if (dropout.probability > 0) ApplyDropout<T>(dropout, output);
    const Shape images{B, x.dim(0) / B, x.dim(1)};
    BranchForward<T>(output.reshape(images), scale, *factors, x.reshape(images), sum.reshape(images));
  }

  /// Gradient of the output, given that of the sum: written to `to`, or dsum itself if plain. output: as Forward left
  /// it.
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

// to = read + branch(output), where layer(residual, out) computes the output.
template <typename T, typename Layer>
void Add(const Branch<T>& branch, View<T> to, BranchCache<T>& cache, int64_t B, Arena& arena, Layer layer) {
  if (branch.plain()) return layer(cache.read, to);
  cache.output = branch.scale.empty() ? to : arena.New<T>(to.shape());
  layer(View<const T>(), cache.output);
  branch.Forward(cache.output, &cache.factors, cache.read, to, B, arena);
}

// A branch whose layer reads only the tokens that it updates: to = read + layer(norm read), or norm(read +
// layer(read)).
// Signature: layer(input, residual, out). normed: scratch for the input.
template <typename T, typename Layer>
void ForwardBranch(const Branch<T>& branch, NormPlace place, const NormParameters<const T>& norm, View<T> to,
                   View<T> normed, BranchCache<T>& cache, int64_t B, Arena& arena, Layer layer) {
  cache.moments = arena.New<T>({to.dim(0), 2});
  if (place == NormPlace::kBefore) {
    NormForward<T>(cache.read, norm, normed, cache.moments);
    return Add(branch, to, cache, B, arena, [&](View<const T> residual, View<T> out) { layer(normed, residual, out); });
  }
  cache.sum = arena.New<T>(to.shape());
  Add(branch, cache.sum, cache, B, arena,
      [&](View<const T> residual, View<T> out) { layer(cache.read, residual, out); });
  NormForward<T>(cache.sum, norm, to, cache.moments);
}

// dread: on entry the gradient of the branch's output, on return that of its input. Signature: layer(input, doutput,
// dinput). normed, doutput, dinput: scratch.
template <typename T, typename Layer>
void BackwardBranch(const Branch<T>& branch, NormPlace place, const NormParameters<const T>& norm,
                    const BranchCache<T>& cache, View<T> dread, View<T> normed, View<T> doutput, View<T> dinput,
                    int64_t B, const NormParameters<T>& dnorm, View<T> dscale, Layer layer) {
  if (place == NormPlace::kBefore) {
    Renormalise<T>(cache.read, cache.moments, norm, normed);
    layer(normed, branch.Backward(cache.output, cache.factors, dread, B, doutput, dscale), dinput);
    NormBackward<T>(cache.read, cache.moments, norm, dinput, dread, true, dnorm);
  } else {
    NormBackward<T>(cache.sum, cache.moments, norm, dread, dread, false, dnorm);
    layer(cache.read, branch.Backward(cache.output, cache.factors, dread, B, doutput, dscale), dinput);
    AddRows<T>(dinput, dread);
  }
}

template <typename T>
bool HasCross(const BlockParameters<T>& p) {
  return !p.norm_cross.empty();
}

}  // namespace

template <typename T>
void BlockForward(View<const T> x, int64_t rows, const BlockParameters<const T>& p, const BlockSettings& s, View<T> y,
                  View<T> normed, BlockCache<T>& cache, Arena& arena, View<const T> source) {
  const int64_t B = x.dim(0), N = x.dim(1), D = x.dim(2);
  Require(y.shape() == Shape({B, rows, D}) && y.dense() && x.dense(),
          "block: tokens are {}, the output {}, expected [{}, {}, {}]", x.shape(), y.shape(), B, rows, D);
  Require(HasCross(p) == !source.empty(), "block: a source of {}, and {} cross-attention", source.shape(),
          HasCross(p) ? "there is" : "no");
  const bool before = s.norm_place == NormPlace::kBefore;
  const View<T> out = y.reshape({B * rows, D});
  cache = {};
  cache.x = x.reshape({B * N, D}), cache.normed = normed;
  BranchCache<T>&first = cache.branch1, &cross = cache.branch_cross, &last = cache.branch2;
  // Attention reads all tokens but updates only the first `rows`.
  first.read = rows < N ? FirstTokens<T>(cache.x, B, rows, arena) : cache.x;
  const View<T> middle = arena.New<T>({B * rows, D});
  first.moments = arena.New<T>({B * (before ? N : rows), 2});
  if (before) {
    NormForward<T>(cache.x, p.norm1, normed, first.moments);
  } else {
    first.sum = arena.New<T>(middle.shape());
  }
  const View<const T> tokens = before ? View<const T>(normed.reshape({B, N, D})) : x;
  Add(Branch<T>(s, 0, rows, p.scale1), before ? middle : first.sum, first, B, arena,
      [&](View<const T> residual, View<T> to) {
        AttentionForward<T>(tokens, rows, p.attention, s.attention, residual, to, cache.attention, arena);
      });
  if (!before) NormForward<T>(first.sum, p.norm1, middle, first.moments);

  const View<T> normed_rows = normed.slice(0, 0, B * rows);
  last.read = middle;
  if (HasCross(p)) {
    const View<T> crossed = arena.New<T>(middle.shape());
    cross.read = middle, last.read = crossed;
    ForwardBranch(Branch<T>(s, 4, rows, p.scale_cross), s.norm_place, p.norm_cross, crossed, normed_rows, cross, B,
                  arena, [&](View<const T> input, View<const T> residual, View<T> to) {
                    CrossAttentionForward<T>(input.reshape({B, rows, D}), source, p.cross, s.cross, residual, to,
                                             cache.cross, arena);
                  });
  }
  ForwardBranch(Branch<T>(s, 1, rows, p.scale2), s.norm_place, p.norm2, out, normed_rows, last, B, arena,
                [&](View<const T> input, View<const T> residual, View<T> to) {
                  MlpForward<T>(input, p.mlp, s.mlp, residual, to, cache.mlp, arena);
                });
}

template <typename T>
void BlockBackward(int64_t rows, const BlockParameters<const T>& p, const BlockSettings& s, const BlockCache<T>& cache,
                   View<T> dx, const BlockParameters<T>& d, Arena& arena, View<T> dsource) {
  const Arena::Scope scope(arena);
  const int64_t B = dx.dim(0), N = dx.dim(1), D = dx.dim(2);
  const bool before = s.norm_place == NormPlace::kBefore;
  const View<T> all = dx.reshape({B * N, D});
  // Gradient of y first, then of the input of each branch.
  const View<T> dread = rows < N ? FirstTokens<T>(all, B, rows, arena) : all;
  const View<T> doutput = arena.New<T>({B * rows, D}), dinput = arena.New<T>({B, N, D});
  const View<T> normed_rows = cache.normed.slice(0, 0, B * rows), dinput_rows(dinput.data(), {B * rows, D});

  BackwardBranch(Branch<T>(s, 1, rows, p.scale2), s.norm_place, p.norm2, cache.branch2, dread, normed_rows, doutput,
                 dinput_rows, B, d.norm2, d.scale2, [&](View<const T> input, View<const T> dy, View<T> din) {
                   MlpBackward<T>(input, p.mlp, s.mlp, cache.mlp, dy, din, false, d.mlp, arena);
                 });
  if (HasCross(p)) {
    BackwardBranch(Branch<T>(s, 4, rows, p.scale_cross), s.norm_place, p.norm_cross, cache.branch_cross, dread,
                   normed_rows, doutput, dinput_rows, B, d.norm_cross, d.scale_cross,
                   [&](View<const T>, View<const T> dy, View<T> din) {
                     CrossAttentionBackward<T>(p.cross, s.cross, cache.cross, dy, din.reshape({B, rows, D}), dsource,
                                               d.cross, arena);
                   });
  }

  const BranchCache<T>& first = cache.branch1;
  if (before) {
    Renormalise<T>(cache.x, first.moments, p.norm1, cache.normed);
  } else {
    NormBackward<T>(first.sum, first.moments, p.norm1, dread, dread, false, d.norm1);
  }
  const Branch<T> branch(s, 0, rows, p.scale1);
  AttentionBackward<T>(rows, p.attention, s.attention, cache.attention,
                       branch.Backward(first.output, first.factors, dread, B, doutput, d.scale1), dinput, d.attention,
                       arena);
  if (rows < N) {
    std::fill_n(all.data(), all.size(), T(0));
    AddToFirstTokens<T>(dread, B, all);
  }
  const View<T> dtokens = dinput.reshape({B * N, D});
  if (before) {
    NormBackward<T>(cache.x, first.moments, p.norm1, dtokens, all, true, d.norm1);
  } else {
    AddRows<T>(dtokens, all);
  }
}

#define QKV_INSTANTIATE(T)                                                                                           \
  template void BlockForward(View<const T>, int64_t, const BlockParameters<const T>&, const BlockSettings&, View<T>, \
                             View<T>, BlockCache<T>&, Arena&, View<const T>);                                        \
  template void BlockBackward(int64_t, const BlockParameters<const T>&, const BlockSettings&, const BlockCache<T>&,  \
                              View<T>, const BlockParameters<T>&, Arena&, View<T>);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)
#undef QKV_INSTANTIATE

}  // namespace qkv::nn
