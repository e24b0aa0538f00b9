// Shared by the parts of a matrix product that are compiled once per instruction set and the rest of it, in every
// precision.
#pragma once

#include <algorithm>
#include <cstdint>

#include "qkv/simd/gemm/gemm.h"

namespace qkv::simd::internal {

inline int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

inline CacheLines ToCacheLines(const void* begin, int64_t bytes) {
  return {static_cast<const char*>(begin), bytes / static_cast<int64_t>(kAlignment)};
}

// Length of a chain of multiply-adds before it is added to the sum; rounding errors grow with its square root. With 192
// the error equals MKL's; it costs 1 % against chains of 768.
inline constexpr int64_t kGemmChain = 3 * kRowChunk;

template <typename T>
struct GemmTask {
  const T* x;        // [M, K]
  int64_t x_stride;  // from row to row
  int64_t x_step;    // from k to k + 1: 1, or x is transposed and its rows are neighbours instead
  const T* w;        // [panels][K][panel]
  T* y;              // [M, N] in heads: column n lies at y + n / head_width · head_stride + n % head_width
  int64_t y_stride, head_width, head_stride;
  int64_t N, K;
  int64_t block_depth;
  Gate gate;
  const Prologue<T>* prologue;
  const Epilogue<T>* epilogue;
  // x is in the kernels' layout, [K / kRowChunk][M][kRowChunk], with this distance between chunks; or 0.
  int64_t x_chunk = 0;
  // y lies outside L2 (activations kept for training) and has no heads or gates, so each tile first prefetches the
  // lines it writes. Leave false for inference: the burst delays the tile's first loads.
  bool y_is_far = false;
  int64_t panels = 0;  // of the whole product; RunProduct sets it
  CacheLines next;     // prefetched during the last panel
};

/// K split into sections that are summed separately: section s reads x from k = s · depth on and the panels
/// [panels][its depth][panel] at w + s · depth · panels · panel, and writes at y + s · y_distance.
struct DepthCut {
  int64_t count, depth, y_distance;
};

/// The sums of these sections: that of section s for (r, n) is at c[s · section + r · row_stride + n].
template <typename T>
struct SectionSums {
  const T* c;
  int64_t row_stride, section, count;
};

/// Part of some panels before packing: element (k, n) is at b[k · k_stride + n · n_stride], where one stride is 1.
/// Packed panels begin `distance` elements apart.
template <typename T>
struct PanelPiece {
  const T* b;
  int64_t k_stride, n_stride;
  int64_t depth, columns;
  int64_t distance;
};

/// A product of M rows by `panels` panels on all threads, with the kernels of gemm.cc.
template <typename T>
void RunProduct(const GemmTask<T>& task, int64_t M, int64_t panels, const DepthCut& cut);
/// Columns of a panel for the active kernels.
template <typename T>
int64_t GemmPanel();
/// Steps of K that a task computes before the next panel.
int64_t GemmBlockDepth();

/// The rows of W that the columns of a panel come from.
struct PanelOrder {
  PanelOrder(Gate gate, int64_t outputs, int64_t panel)
      : N(outputs),
        width(gate == Gate::kNone ? panel : panel / 2),
        panels(CeilDivide(N, width)),
        gate_at(gate == Gate::kLast ? N : 0) {}

  /// −1: the column is padding.
  int64_t SourceRow(int64_t p, int64_t i) const {
    const int64_t n = p * width + i % width;
    if (n >= N) return -1;
    return i < width ? n + gate_at : n + N - gate_at;
  }

  int64_t N, width, panels, gate_at;
};

/// Division of the panels of a block of rows into pieces.
class PanelCut {
 public:
  PanelCut() = default;

  /// Pieces of equal size, or nearly.
  static PanelCut Even(int64_t panels, int64_t pieces) { return {panels, pieces, 0, 0}; }

  /// Pieces of at most `most` panels that get smaller towards the end, so that threads of unequal speed finish at about
  /// the same time (trapezoid self-scheduling, Tzen and Ni 1993). Of the tail's n pieces the first has 2n − 1 of n²
  /// parts and each next one two parts less; the pieces of equal size before it are as large as its first.
  static PanelCut Tapered(int64_t panels, int64_t most) {
    const int64_t n = std::min(panels, kTailPieces), parts = n * n, first = 2 * n - 1;
    const int64_t even = std::max<int64_t>(0, CeilDivide(panels * first - most * parts, most * first));
    return {panels, even, panels * parts / (even * first + parts), n};
  }

  int64_t count() const { return even_pieces_ + tail_pieces_; }
  /// Greatest number of panels of a piece.
  int64_t largest() const {
    const int64_t parts = std::max<int64_t>(1, tail_pieces_ * tail_pieces_), even = std::max<int64_t>(1, even_pieces_);
    return std::max(CeilDivide(panels_ - tail_, even), CeilDivide(tail_ * (2 * tail_pieces_ - 1), parts));
  }
  /// The first panel of piece i; for i = number of pieces the end of the last.
  int64_t at(int64_t i) const {
    if (i < even_pieces_ || tail_ == 0) return i * (panels_ - tail_) / even_pieces_;
    const int64_t left = count() - i, parts = tail_pieces_ * tail_pieces_;
    return panels_ - std::max(left, CeilDivide(tail_ * left * left, parts));  // at least one panel per piece
  }

 private:
  // On two virtual processors slowed down by other work, the median of ViT-Ti is 4 % shorter with 6 than with four
  // pieces of equal size, 5 % with 8, and no shorter with 12.
  static constexpr int64_t kTailPieces = 8;

  PanelCut(int64_t panels, int64_t even_pieces, int64_t tail, int64_t tail_pieces)
      : panels_(panels), even_pieces_(even_pieces), tail_(tail), tail_pieces_(tail_pieces) {}

  int64_t panels_ = 0, even_pieces_ = 0;
  int64_t tail_ = 0, tail_pieces_ = 0;
};

/// A product divided into tasks: blocks of rows times some panels of outputs.
class TaskCut {
 public:
  // Greatest number of rows of a task: 197 tokens are one block, so that one thread reads the weights once.
  static constexpr int64_t kBlockRows = 240;

  // Rows are divided first, into as many blocks as threads or a multiple: a thread then reads the rows that it wrote in
  // the preceding layer (ParallelTasks) and copies no others. If a thread is delayed, others take over its pieces,
  // which get smaller. If there are too few rows for all threads, columns are also divided, evenly.
  TaskCut(int64_t M, int64_t all_panels, int threads) : M_(M), threads_(threads) {
    const int64_t wanted = threads == 1 ? 1 : kTasksPerThread * threads;
    const int64_t least = CeilDivide(M, kBlockRows);
    int64_t each = std::max<int64_t>(1, std::min<int64_t>(threads, M / kLeastRows));
    while (threads % each != 0) --each;
    row_blocks = std::max(CeilDivide(least, each) * each, std::min(CeilDivide(wanted, all_panels), M / kLeastRows));
    rows = CeilDivide(M, row_blocks);
    const int64_t most = kTaskPanels * kBlockRows / rows;
    if (threads > 1 && row_blocks % threads == 0) {
      columns_ = PanelCut::Tapered(all_panels, most);
    } else {
      const int64_t each_panels = std::clamp<int64_t>(all_panels * row_blocks / wanted, 1, most);
      int64_t pieces = CeilDivide(all_panels, each_panels);
      // One task more than threads would delay all of them.
      if (row_blocks == 1) pieces = std::min(all_panels, CeilDivide(pieces, threads) * threads);
      columns_ = PanelCut::Even(all_panels, pieces);
    }
    panels = columns_.largest();
  }

  struct Part {
    int64_t row, rows, panel_begin, panel_end;
  };
  int64_t count() const { return row_blocks * columns_.count(); }
  Part at(int64_t task) const {
    const int64_t block = task / columns_.count(), piece = task % columns_.count();
    return {FirstRow(block), FirstRow(block + 1) - FirstRow(block), columns_.at(piece), columns_.at(piece + 1)};
  }
  /// The memory that the thread of a task reads after the last panel: the start of these weights again for its next
  /// block of rows, after its last block that of the next product. Unknown if columns are divided too.
  CacheLines NextCacheLines(int64_t task, CacheLines first_slice, CacheLines next) const {
    if (row_blocks % threads_ != 0) return {};
    const int64_t share = row_blocks / threads_, block = task / columns_.count();
    return (block + 1) % share == 0 ? next : first_slice;
  }
  /// The first row of a block.
  int64_t FirstRow(int64_t block) const { return block * M_ / row_blocks; }

  int64_t row_blocks, rows, panels;  // number of blocks of rows; greatest rows and panels of a task

 private:
  // Greatest number of panels of a whole block of rows: bounds the scratch memory.
  static constexpr int64_t kTaskPanels = 8;
  // Least number of rows of a task: below two tiles a slice of W is not reused enough to pay for its fetch.
  static constexpr int64_t kLeastRows = 26;
  // Tasks per thread if they are of equal size. With 2, ViT-B was as fast on two idle cores, but its median beside
  // other work was 4 % longer (Zen 4).
  static constexpr int64_t kTasksPerThread = 4;

  int64_t M_, threads_;
  PanelCut columns_;
};

/// A block of steps of K of a panel of W.
struct Slice {
  int64_t panel, k;
};

/// The slice that a task over panels [begin, end) multiplies after this one; after its last slice the first of the next
/// task of these rows, which mostly belongs to the same thread.
inline Slice SliceAfter(Slice slice, int64_t begin, int64_t end, int64_t block_depth, int64_t K) {
  if (slice.panel + 1 < end) return {slice.panel + 1, slice.k};
  if (slice.k + block_depth < K) return {begin, slice.k + block_depth};
  return {end, 0};
}

/// Scratch memory that grows to the size of the largest product.
template <typename T>
void Grow(Tensor<T>& memory, int64_t size) {
  if (memory.size() < size) memory = Tensor<T>::Uninitialised({size});
}

}  // namespace qkv::simd::internal
