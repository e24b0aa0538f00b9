// What the parts of a matrix product that are compiled once for each instruction set share with the rest of it, in
// every precision.
#pragma once

#include <algorithm>
#include <cstdint>

#include "qkv/simd/gemm.h"

namespace qkv::simd::internal {

// Length of a chain of multiply-adds before it is added to the sum: rounding errors grow with its square root. 192 is
// what MKL's error corresponds to; it costs 1 % against chains of 768.
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
  // x lies as the kernels read it, [K / kRowChunk][M][kRowChunk], with this from one to the next; or 0.
  int64_t x_chunk = 0;
  int64_t panels = 0;  // of the whole product, set by RunProduct
};

/// K cut into sections that are summed apart: section s reads x from k = s · depth on and the panels
/// [panels][its depth][panel] at w + s · depth · panels · panel, and writes at y + s · y_distance.
struct DepthCut {
  int64_t count, depth, y_distance;
};

/// What such sections came to: the sum of section s for (r, n) lies at c[s · section + r · row_stride + n].
template <typename T>
struct SectionSums {
  const T* c;
  int64_t row_stride, section, count;
};

/// Part of some panels before they are packed: element (k, n) lies at b[k · k_stride + n · n_stride], where one stride
/// is 1. Packed panels begin `distance` elements apart.
template <typename T>
struct PanelPiece {
  const T* b;
  int64_t k_stride, n_stride;
  int64_t depth, columns;
  int64_t distance;
};

/// A product of M rows by `panels` panels on all threads; the kernels of gemm.cc are behind it.
template <typename T>
void RunProduct(const GemmTask<T>& task, int64_t M, int64_t panels, const DepthCut& cut);
/// Columns of a panel for the active kernels.
template <typename T>
int64_t GemmPanel();
/// Steps of K that a task computes before it goes on to the next panel.
int64_t GemmBlockDepth();

/// Which row of W a panel's columns come from.
struct PanelOrder {
  PanelOrder(Gate gate, int64_t outputs, int64_t panel)
      : N(outputs),
        width(gate == Gate::kNone ? panel : panel / 2),
        panels((N + width - 1) / width),
        gate_at(gate == Gate::kLast ? N : 0) {}

  /// −1: none, the column is padding.
  int64_t RowOf(int64_t p, int64_t i) const {
    const int64_t n = p * width + i % width;
    if (n >= N) return -1;
    return i < width ? n + gate_at : n + N - gate_at;
  }

  int64_t N, width, panels, gate_at;
};

/// Panels cut into pieces: even ones first, then ever smaller ones, so that threads that are not equally fast end at
/// about the same time (guided self-scheduling, Polychronopoulos and Kuck 1987).
class PanelCut {
 public:
  PanelCut() = default;
  PanelCut(int64_t panels, int64_t pieces) : count(pieces), largest((panels + pieces - 1) / pieces), panels_(panels) {}

  /// Pieces of `most` panels, and smaller ones at the end.
  static PanelCut Tapered(int64_t panels, int64_t most) {
    const int64_t n = std::min((panels + 1) / 2, kTapered), squares = n * n, first = 2 * n - 1;
    const int64_t tail = std::min(panels, most * squares / first), even = (panels - tail + most - 1) / most;
    PanelCut cut(panels, even + n);
    cut.tail_ = tail, cut.tapered_ = n;
    cut.largest = even > 0 ? most : (tail * first + squares - 1) / squares;
    return cut;
  }

  /// Where piece i begins. In the tail as many panels are left as the square of the pieces left says.
  int64_t at(int64_t i) const {
    const int64_t even = count - tapered_, left = count - i, squares = tapered_ * tapered_;
    return i < even || tapered_ == 0 ? i * (panels_ - tail_) / even
                                     : panels_ - (tail_ * left * left + squares - 1) / squares;
  }

  int64_t count = 0, largest = 0;

 private:
  // Two virtual processors at unequal speeds, medians of ViT-Ti: 4 % less time with 6 than with four even pieces, 5 %
  // with 8, no less with 12.
  static constexpr int64_t kTapered = 8;

  int64_t panels_ = 0, tail_ = 0;  // all of them, and those of the smaller pieces
  int64_t tapered_ = 0;            // how many pieces these are
};

/// A product cut into tasks: blocks of rows times some panels of outputs.
class TaskCut {
 public:
  // Rows of a task at most: 197 tokens are one block, so that one thread reads the weights once.
  static constexpr int64_t kBlockRows = 240;

  // Rows are cut first, into as many blocks as there are threads or a multiple: a thread then reads the rows that it
  // wrote in the layer before (ParallelTasks), and copies no others. Where the rows do not reach for all threads,
  // columns are cut too.
  TaskCut(int64_t M, int64_t all_panels, int threads) : M_(M) {
    const int64_t wanted = threads == 1 ? 1 : kTasksPerThread * threads;
    const int64_t least = (M + kBlockRows - 1) / kBlockRows;
    int64_t each = std::max<int64_t>(1, std::min<int64_t>(threads, M / kLeastRows));
    while (threads % each != 0) --each;
    row_blocks =
        std::max((least + each - 1) / each * each, std::min((wanted + all_panels - 1) / all_panels, M / kLeastRows));
    rows = (M + row_blocks - 1) / row_blocks;
    const int64_t most = kTaskPanels * kBlockRows / rows;
    if (threads > 1 && row_blocks % threads == 0) {
      columns_ = PanelCut::Tapered(all_panels, most);
    } else {
      const int64_t each_panels = std::clamp<int64_t>(all_panels * row_blocks / wanted, 1, most);
      int64_t pieces = (all_panels + each_panels - 1) / each_panels;
      // One task more than threads would hold all of them up.
      if (row_blocks == 1) pieces = std::min(all_panels, (pieces + threads - 1) / threads * threads);
      columns_ = PanelCut(all_panels, pieces);
    }
    panels = columns_.largest;
  }

  struct Part {
    int64_t row, rows, panel_begin, panel_end;
  };
  int64_t count() const { return row_blocks * columns_.count; }
  Part at(int64_t task) const {
    const int64_t block = task / columns_.count, piece = task % columns_.count;
    return {RowOf(block), RowOf(block + 1) - RowOf(block), columns_.at(piece), columns_.at(piece + 1)};
  }
  /// The first row of a block.
  int64_t RowOf(int64_t block) const { return block * M_ / row_blocks; }

  int64_t row_blocks, rows, panels;  // how many blocks of rows; rows and panels of a task at most

 private:
  // Panels of a whole block of rows at most: bounds the scratch memory.
  static constexpr int64_t kTaskPanels = 8;
  // Rows of a task at least: below two tiles a slice of W is not used often enough to be worth fetching.
  static constexpr int64_t kLeastRows = 28;
  // Tasks for each thread, so that a thread that was held up does not hold up the rest for long: with 2, as fast on two
  // cores alone, ViT-B's median beside other work was 4 % longer (Zen 4).
  static constexpr int64_t kTasksPerThread = 4;

  int64_t M_;
  PanelCut columns_;
};

/// A block of steps of K of a panel of W.
struct Slice {
  int64_t panel, k;
};

/// The slice that a task over panels [begin, end) multiplies after this one; after its last the first of the next task
/// of these rows, mostly the same thread's.
inline Slice SliceAfter(Slice slice, int64_t begin, int64_t end, int64_t block_depth, int64_t K) {
  if (slice.panel + 1 < end) return {slice.panel + 1, slice.k};
  if (slice.k + block_depth < K) return {begin, slice.k + block_depth};
  return {end, 0};
}

/// Scratch memory that grows to what the largest product needs.
template <typename T>
void Grow(Tensor<T>& memory, int64_t size) {
  if (memory.size() < size) memory = Tensor<T>::Uninitialised({size});
}

}  // namespace qkv::simd::internal
