#include "qkv/app/vectors/search.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "qkv/core/file.h"
#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"
#include "qkv/core/work.h"
#include "qkv/simd/rows/dot_rows.h"

namespace qkv::app {
namespace {

// Bytes of rows per task: a fraction of a millisecond, and long enough to read ahead.
constexpr int64_t kTaskBytes = int64_t{1} << 20;
// Rows whose products are computed before they are compared: their scores stay in the first-level cache.
constexpr int64_t kBlockRows = 64;
// Sums of squares in float between these are as accurate as any; the others may have lost terms, or overflowed.
constexpr float kLeastSquares = 1e-24f, kGreatestSquares = 1e30f;

bool IsBetter(const Match& a, const Match& b) { return a.score > b.score || (a.score == b.score && a.row < b.row); }

// The best matches so far, as a heap whose front is the worst.
class BestMatches {
 public:
  explicit BestMatches(int64_t top) : top_(static_cast<size_t>(top)) {}

  void Add(const Match& match) {
    if (heap_.size() == top_) {
      if (!IsBetter(match, heap_.front())) return;
      std::ranges::pop_heap(heap_, IsBetter);
      heap_.back() = match;
    } else {
      heap_.push_back(match);
    }
    std::ranges::push_heap(heap_, IsBetter);
  }
  const std::vector<Match>& heap() const { return heap_; }

 private:
  size_t top_;
  std::vector<Match> heap_;
};

// Data of one thread.
struct Lane {
  std::vector<BestMatches> best;  // [Q]
  Tensor<float> dots;             // [Q, kBlockRows]
  Tensor<float> squares;          // [kBlockRows]
  Tensor<float> rows;             // [kBlockRows, D], if the stored ones cannot be read in place
  int64_t not_finite = 0;
};

// The cosine of two vectors in double, for sums that float cannot hold. NaN if the row is not finite.
float WideCosine(const float* row, const float* query, int64_t D) {
  double dot = 0, squares = 0;
  for (int64_t d = 0; d < D; ++d) {
    const double x = row[d];
    dot += x * query[d], squares += x * x;
  }
  if (squares == 0) return 0;
  // infinity − infinity
  return static_cast<float>(dot / std::sqrt(squares) + (squares - squares));
}

// Queries of length 1; a query of zeros stays.
Tensor<float> Normalised(View<const float> queries) {
  Tensor<float> result(queries.shape());
  for (int64_t q = 0; q < queries.dim(0); ++q) {
    double squares = 0;
    for (int64_t d = 0; d < queries.dim(1); ++d) squares += static_cast<double>(*queries.at(q, d)) * *queries.at(q, d);
    Require(std::isfinite(squares), "search: query {} holds NaN or infinity", q);
    const double factor = squares > 0 ? 1 / std::sqrt(squares) : 0;
    for (int64_t d = 0; d < queries.dim(1); ++d) {
      *result.view().at(q, d) = static_cast<float>(*queries.at(q, d) * factor);
    }
  }
  return result;
}

// Reads the whole range from `offset`. Behind the end of a file that became shorter are zeros, as in a mapping.
void ReadAt(int descriptor, size_t offset, std::span<std::byte> to, const io::TensorFile& file) {
  while (!to.empty()) {
    const ssize_t got = ::pread(descriptor, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    RequireCall(got >= 0, "read", file.path);
    if (got == 0) {
      std::ranges::fill(to, std::byte{0});
      return;
    }
    offset += static_cast<size_t>(got), to = to.subspan(static_cast<size_t>(got));
  }
}

class Searcher {
 public:
  Searcher(const io::StoredTensor& vectors, View<const float> queries, int64_t top, VectorAccess access)
      : vectors_(vectors),
        queries_(Normalised(queries)),
        top_(top),
        // Old files are misaligned.
        in_place_(vectors.dtype == DType::kF32 &&
                  reinterpret_cast<uintptr_t>(vectors.bytes.data()) % alignof(float) == 0 &&
                  access == VectorAccess::kMapped) {
    if (access == VectorAccess::kStream && vectors.file != nullptr && vectors.dtype == DType::kF32) {
      stream_.emplace(vectors.file->path);
      // The file at this path must still be the one that was opened.
      if (stream_->stamp() != vectors.file->mapped.stamp()) stream_.reset();
    }
    const int64_t Q = queries.dim(0), D = queries.dim(1), lanes = NumThreads();
    const double lane = static_cast<double>(Q) * static_cast<double>(top) * sizeof(Match) +
                        static_cast<double>(Q + (in_place_ ? 0 : D)) * kBlockRows * sizeof(float);
    RequireMemory(lane * static_cast<double>(lanes), "search: the matches of all threads");
    for (int64_t i = 0; i < lanes; ++i) {
      lanes_.push_back({.best = std::vector(static_cast<size_t>(Q), BestMatches(top)),
                        .dots = Tensor<float>({Q, kBlockRows}),
                        .squares = Tensor<float>({kBlockRows}),
                        .rows = in_place_ ? Tensor<float>() : Tensor<float>({kBlockRows, D})});
    }
  }

  SearchResult Run() {
    const int64_t n = vectors_.shape[0], bytes = vectors_.shape[1] * static_cast<int64_t>(ElementSize(vectors_.dtype));
    const int64_t task = std::max<int64_t>(1, kTaskBytes / (kBlockRows * bytes)) * kBlockRows;
    ParallelTasks((n + task - 1) / task, [&](int64_t i, int thread) {
      Lane& lane = lanes_[static_cast<size_t>(thread)];
      const int64_t end = std::min(n, (i + 1) * task);
      CheckCancelled();
      for (int64_t row = i * task; row < end; row += kBlockRows) AddBlock(row, std::min(end, row + kBlockRows), lane);
    });
    if (vectors_.file != nullptr) vectors_.file->RequireUnchanged();
    return Merge();
  }

 private:
  // Rows [begin, end) as float.
  View<const float> Rows(int64_t begin, int64_t end, Lane& lane) const {
    const int64_t D = vectors_.shape[1];
    const size_t row = static_cast<size_t>(D) * ElementSize(vectors_.dtype);
    const std::span<const std::byte> bytes =
        vectors_.bytes.subspan(static_cast<size_t>(begin) * row, static_cast<size_t>(end - begin) * row);
    const Shape shape({end - begin, D});
    if (in_place_) return View<const float>(reinterpret_cast<const float*>(bytes.data()), shape);
    if (stream_) {
      const size_t offset = static_cast<size_t>(bytes.data() - vectors_.file->mapped.bytes().data());
      ReadAt(stream_->descriptor(), offset, {reinterpret_cast<std::byte*>(lane.rows.data()), bytes.size()},
             *vectors_.file);
      return View<const float>(lane.rows.data(), shape);
    }
    io::ConvertTo<float>({vectors_.name, vectors_.dtype, shape, bytes, nullptr}, lane.rows.data());
    return View<const float>(lane.rows.data(), shape);
  }

  void AddBlock(int64_t begin, int64_t end, Lane& lane) const {
    const View<const float> rows = Rows(begin, end, lane);
    const int64_t R = rows.dim(0), Q = queries_.dim(0), D = rows.dim(1);
    const View<float> dots(lane.dots.data(), {Q, R});
    simd::DotRows(rows, queries_.view(), dots, lane.squares.data());
    for (int64_t r = 0; r < R; ++r) {
      const float squares = lane.squares[r];
      const bool accurate = squares >= kLeastSquares && squares <= kGreatestSquares;
      const float factor = accurate ? 1 / std::sqrt(squares) : 0;
      if (!accurate && std::isnan(WideCosine(rows.row(r), queries_.view().row(0), D))) {
        ++lane.not_finite;
        continue;
      }
      for (int64_t q = 0; q < Q; ++q) {
        const float score = accurate ? *dots.at(q, r) * factor : WideCosine(rows.row(r), queries_.view().row(q), D);
        lane.best[static_cast<size_t>(q)].Add({begin + r, std::clamp(score, -1.0f, 1.0f)});
      }
    }
  }

  SearchResult Merge() const {
    SearchResult result;
    for (int64_t q = 0; q < queries_.dim(0); ++q) {
      std::vector<Match>& all = result.matches.emplace_back();
      for (const Lane& lane : lanes_) {
        const std::vector<Match>& heap = lane.best[static_cast<size_t>(q)].heap();
        all.insert(all.end(), heap.begin(), heap.end());
      }
      std::ranges::sort(all, IsBetter);
      all.resize(std::min(all.size(), static_cast<size_t>(top_)));
    }
    for (const Lane& lane : lanes_) result.not_finite += lane.not_finite;
    return result;
  }

  const io::StoredTensor& vectors_;
  const Tensor<float> queries_;  // [Q, D], of length 1
  const int64_t top_;
  const bool in_place_;
  std::optional<InputFile> stream_;
  std::vector<Lane> lanes_;
};

}  // namespace

SearchResult Search(const io::StoredTensor& vectors, View<const float> queries, int64_t top, VectorAccess access) {
  Require(vectors.shape.rank() == 2 && queries.rank() == 2 && queries.dim(0) >= 1,
          "search: expected vectors [n, D] and queries [Q, D], got {} and {}", vectors.shape, queries.shape());
  Require(vectors.shape[1] == queries.dim(1), "search: the queries have {} numbers, the vectors of the file {}",
          queries.dim(1), vectors.shape[1]);
  Require(top >= 1, "search: expected at least 1 match, got {}", top);
  return Searcher(vectors, queries, std::max<int64_t>(1, std::min(top, vectors.shape[0])), access).Run();
}

}  // namespace qkv::app
