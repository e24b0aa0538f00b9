#include "qkv/train/network/blocks.h"

#include <algorithm>

#include "qkv/core/rng.h"

namespace qkv::train {
namespace {

// Drop path falls linearly to 0 at the first block.
nn::BlockSettings BlockSettingsAt(const nn::BlockSettings& all, const NetworkOptions& options, int64_t block,
                                  int64_t depth) {
  nn::BlockSettings settings = all;
  settings.attention.seed = MixSeed(options.seed, static_cast<uint64_t>(block));
  settings.attention.block = block;
  settings.cross.seed = MixSeed(settings.attention.seed, 1);
  settings.drop_path =
      options.drop_path * static_cast<double>(block) / static_cast<double>(std::max<int64_t>(1, depth - 1));
  return settings;
}

}  // namespace

simd::Precision ToPrecision(const NetworkOptions& options) {
  return options.bf16 ? simd::Precision::kBfloat16 : simd::Precision::kFloat32;
}

nn::BlockSettings MakeBlockSettings(const nn::BlockConfig& c, const nn::TokenGrid& grid,
                                    const NetworkOptions& options) {
  nn::BlockSettings s;
  s.attention = {.config = c.attention,
                 .grid = grid,
                 .precision = ToPrecision(options),
                 .dropout = options.attention_dropout,
                 .first_image = options.first_image,
                 .open = options.open};
  if (c.cross) s.cross = s.attention, s.cross.config = *c.cross, s.cross.open = nullptr;
  s.mlp = {.config = c.mlp, .precision = ToPrecision(options)};
  s.norm_place = c.norm_place;
  s.dropout = options.dropout;
  return s;
}

template <typename T>
void BlocksCache<T>::Begin(int64_t depth, int64_t B, int64_t N, int64_t rows, int64_t D, Arena& arena) {
  inputs.resize(static_cast<size_t>(depth + 1)), blocks.resize(static_cast<size_t>(depth));
  for (int64_t block = 0; block <= depth; ++block) {
    inputs[static_cast<size_t>(block)] = arena.New<T>({B, block < depth ? N : rows, D});
  }
  normed = arena.New<T>({B * N, D});
}

template <typename T>
void BlocksForward(const NetworkParameters& parameters, View<const T> weights, const nn::BlockSettings& all,
                   const NetworkOptions& options, BlocksCache<T>& cache, Arena& arena, View<const T> source) {
  const auto depth = static_cast<int64_t>(cache.blocks.size());
  for (int64_t block = 0; block < depth; ++block) {
    const auto at = static_cast<size_t>(block);
    const View<T> y = cache.inputs[at + 1];
    const auto forward = [&] {
      nn::BlockForward<T>(cache.inputs[at], y.dim(1), parameters.Block(block, weights),
                          BlockSettingsAt(all, options, block, depth), y, cache.normed, cache.blocks[at], arena,
                          source);
    };
    if (options.checkpointing) {
      const Arena::Scope scope(arena);
      forward();
    } else {
      forward();
    }
  }
}

template <typename T>
void BlocksBackward(const NetworkParameters& parameters, View<const T> weights, const nn::BlockSettings& all,
                    const NetworkOptions& options, BlocksCache<T>& cache, View<T> dx, View<T> gradients,
                    const std::function<void(int64_t, int64_t)>& finished, Arena& arena, View<const T> source,
                    View<T> dsource) {
  const auto depth = static_cast<int64_t>(cache.blocks.size());
  for (int64_t block = depth - 1; block >= 0; --block) {
    const auto at = static_cast<size_t>(block);
    const Arena::Scope recomputed(arena);
    const auto p = parameters.Block(block, weights);
    const nn::BlockSettings settings = BlockSettingsAt(all, options, block, depth);
    const View<T> y = cache.inputs[at + 1];
    if (options.checkpointing) {
      nn::BlockForward<T>(cache.inputs[at], y.dim(1), p, settings, y, cache.normed, cache.blocks[at], arena, source);
    }
    nn::BlockBackward<T>(y.dim(1), p, settings, cache.blocks[at], dx, parameters.Block(block, gradients), arena,
                         dsource);
    if (finished) finished(parameters.begin(block + 1), parameters.begin(block + 2));
  }
}

template <typename T>
void ConstrainBlocks(const NetworkParameters& parameters, View<T> weights) {
  for (int64_t block = 0; block < parameters.depth(); ++block) {
    const View<T> bandwidth = parameters.Block(block, weights).attention.bandwidth;
    for (int64_t h = 0; !bandwidth.empty() && h < bandwidth.size(); ++h) {
      bandwidth.data()[h] = std::max(bandwidth.data()[h], static_cast<T>(nn::kLeastBandwidth));
    }
  }
}

#define QKV_INSTANTIATE(T)                                                                                    \
  template struct BlocksCache<T>;                                                                             \
  template void BlocksForward(const NetworkParameters&, View<const T>, const nn::BlockSettings&,              \
                              const NetworkOptions&, BlocksCache<T>&, Arena&, View<const T>);                 \
  template void BlocksBackward(const NetworkParameters&, View<const T>, const nn::BlockSettings&,             \
                               const NetworkOptions&, BlocksCache<T>&, View<T>, View<T>,                      \
                               const std::function<void(int64_t, int64_t)>&, Arena&, View<const T>, View<T>); \
  template void ConstrainBlocks(const NetworkParameters&, View<T>);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)
#undef QKV_INSTANTIATE

}  // namespace qkv::train
