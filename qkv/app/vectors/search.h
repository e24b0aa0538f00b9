// Exact nearest neighbours by cosine among many vectors.
#pragma once

#include <cstdint>
#include <vector>

#include "qkv/core/tensor.h"
#include "qkv/io/tensor_set.h"

namespace qkv::app {

struct Match {
  int64_t row = 0;  // of the vectors
  float score = 0;  // cosine, −1 … 1
};

struct SearchResult {
  /// For each query the best rows, best first; equal scores in the order of rows. Fewer than asked for if there are
  /// fewer rows.
  std::vector<std::vector<Match>> matches;
  int64_t not_finite = 0;  // rows left out: they hold NaN or infinity
};

/// How the vectors of a mapped file are read.
enum class VectorAccess {
  kMapped,  // in place: best where one process searches again
  kStream,  // a block at a time into the caches: best for one search, since no page needs to be mapped
};

/// Compares each query with every vector: one pass over their memory, on all cores, without a copy of float. vectors:
/// [n, D] of half, bfloat16, float or double; queries: [Q, D]. A vector of zeros, also a query, has the score 0 with
/// everything. Throws Error if the widths differ, if a query is not finite, and if the file of the vectors changed.
SearchResult Search(const io::StoredTensor& vectors, View<const float> queries, int64_t top,
                    VectorAccess access = VectorAccess::kMapped);

}  // namespace qkv::app
