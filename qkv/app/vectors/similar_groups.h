// Which of many vectors lie close together: duplicates and near-duplicates of images, texts that say the same.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "qkv/app/vectors/search.h"
#include "qkv/io/tensor_set.h"

namespace qkv::app {

struct SimilarGroup {
  int64_t first = 0;  // the row that comes first in the file
  /// The other rows, most similar first: each with its greatest cosine with another row of the group.
  std::vector<Match> others;
};

struct SimilarGroups {
  std::vector<SimilarGroup> groups;  // by their first rows; a row without a neighbour is in none
  int64_t not_finite = 0;            // rows left out: they hold NaN or infinity
};

/// Groups rows: two are in one group if their cosine is `least` or more, or if a chain of such pairs connects them.
/// vectors: [n, D] as in Search. Exact, n² D products. `done` receives how many rows were compared with all; or empty.
/// Throws Error as Search, and unless 0 < least <= 1. Can be given up (core/work.h).
SimilarGroups FindSimilarGroups(const io::StoredTensor& vectors, float least,
                                const std::function<void(int64_t rows)>& done = {});

}  // namespace qkv::app
