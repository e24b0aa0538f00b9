#include "qkv/app/vectors/similar_groups.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "qkv/core/error.h"
#include "qkv/model/blocks/finite.h"

namespace qkv::app {
namespace {

constexpr int64_t kBlock = 256;      // queries of one pass over the vectors
constexpr int64_t kNeighbours = 64;  // looked for first; rows with more are searched again

// Sets of rows, joined pair by pair.
class Sets {
 public:
  explicit Sets(int64_t rows) : above_(static_cast<size_t>(rows)) { std::iota(above_.begin(), above_.end(), 0); }
  /// The least row of the set.
  int64_t Find(int64_t row) {
    int64_t top = row;
    while (At(top) != top) top = At(top);
    while (At(row) != top) row = std::exchange(At(row), top);
    return top;
  }
  void Join(int64_t a, int64_t b) {
    a = Find(a), b = Find(b);
    At(std::max(a, b)) = std::min(a, b);
  }

 private:
  int64_t& At(int64_t row) { return above_[static_cast<size_t>(row)]; }
  std::vector<int64_t> above_;
};

// Matches of each query of `least` or more, and one below if there is one.
std::vector<std::vector<Match>> NeighboursOf(const io::StoredTensor& vectors, View<const float> queries, float least) {
  const int64_t count = vectors.shape[0];
  std::vector<std::vector<Match>> matches = Search(vectors, queries, kNeighbours).matches;
  for (int64_t q = 0; q < queries.dim(0); ++q) {
    std::vector<Match>& found = matches[static_cast<size_t>(q)];
    for (int64_t top = 8 * kNeighbours; std::ssize(found) < count && !found.empty() && found.back().score >= least;
         top *= 8) {
      const auto more = Search(vectors, queries.slice(0, q, q + 1), std::min(top, count)).matches.at(0);
      if (more.size() == found.size()) break;  // the others are not finite
      found = more;
    }
  }
  return matches;
}

// Rows [first, end) in float; `finite` receives which of them are.
Tensor<float> FiniteRows(const io::StoredTensor& vectors, int64_t first, int64_t end, std::vector<int64_t>* finite) {
  const int64_t D = vectors.shape[1];
  const auto bytes = static_cast<int64_t>(vectors.bytes.size()) / vectors.shape[0];
  io::StoredTensor part = vectors;
  part.shape = Shape({end - first, D});
  part.bytes = vectors.bytes.subspan(static_cast<size_t>(first * bytes), static_cast<size_t>((end - first) * bytes));
  const auto rows = io::Convert<float>(part);
  finite->clear();
  for (int64_t i = 0; i < end - first; ++i) {
    if (model::AllFinite(rows.view().row(i), D)) finite->push_back(first + i);
  }
  auto kept = Tensor<float>::Uninitialised({std::ssize(*finite), D});
  for (size_t i = 0; i < finite->size(); ++i) {
    std::copy_n(rows.view().row((*finite)[i] - first), D, kept.data() + static_cast<int64_t>(i) * D);
  }
  return kept;
}

}  // namespace

SimilarGroups FindSimilarGroups(const io::StoredTensor& vectors, float least,
                                const std::function<void(int64_t rows)>& done) {
  Require(least > 0 && least <= 1, "search: expected a least similarity above 0 and up to 1, got {}", least);
  const int64_t count = vectors.shape[0];
  Sets sets(count);
  std::vector<float> best(static_cast<size_t>(count), -1);
  SimilarGroups result;
  std::vector<int64_t> finite;
  for (int64_t first = 0; first < count; first += kBlock) {
    const int64_t end = std::min(count, first + kBlock);
    const Tensor<float> queries = FiniteRows(vectors, first, end, &finite);
    result.not_finite += end - first - std::ssize(finite);
    if (!finite.empty()) {
      const auto matches = NeighboursOf(vectors, queries, least);
      for (size_t q = 0; q < finite.size(); ++q) {
        for (const Match& match : matches[q]) {
          if (match.score < least || match.row == finite[q]) continue;
          sets.Join(finite[q], match.row);
          for (const int64_t row : {finite[q], match.row}) {
            float& greatest = best[static_cast<size_t>(row)];
            greatest = std::max(greatest, match.score);
          }
        }
      }
    }
    if (done) done(end - first);
  }
  std::map<int64_t, SimilarGroup> groups;
  for (int64_t row = 0; row < count; ++row) {
    if (best[static_cast<size_t>(row)] < least) continue;
    const int64_t head = sets.Find(row);
    SimilarGroup& group = groups.try_emplace(head, SimilarGroup{.first = head, .others = {}}).first->second;
    if (row != head) group.others.push_back({row, best[static_cast<size_t>(row)]});
  }
  for (auto& [head, group] : groups) {
    std::ranges::sort(group.others, [](const Match& a, const Match& b) {
      return a.score > b.score || (a.score == b.score && a.row < b.row);
    });
    result.groups.push_back(std::move(group));
  }
  return result;
}

}  // namespace qkv::app
