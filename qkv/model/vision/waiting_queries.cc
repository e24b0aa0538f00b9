#include "qkv/model/vision/waiting_queries.h"

#include <algorithm>
#include <memory>
#include <span>

#include "qkv/core/error.h"

namespace qkv::model {
namespace {

// Completes the rows of one request: weights of the other tokens come in ascending order, those of waiting tokens are
// put where they belong.
template <typename T>
class RowCompleter {
 public:
  RowCompleter(const nn::WeightsRequest<T>& request, int64_t B, int64_t heads, const WaitingQueries& waiting,
               int64_t tokens)
      : request_(request),
        waiting_(waiting),
        B_(B),
        heads_(request.head_end > 0 ? request.head_end - request.head_begin : heads),
        tokens_(tokens),
        next_(request.row_begin) {}

  // weights: [B, heads, rows, N − count] of other tokens, from `row` of these on.
  void Add(int64_t row, View<const T> weights) {
    for (int64_t done = 0; done < weights.dim(2);) {
      const int64_t first = row + done;
      const bool before = first < waiting_.begin;
      if (!before) AddQueries();
      const int64_t rows = before ? std::min(weights.dim(2) - done, waiting_.begin - first) : weights.dim(2) - done;
      AddOthers(weights.slice(2, done, done + rows));
      done += rows;
    }
    if (next_ == waiting_.begin) AddQueries();
  }

  // The rows of waiting tokens that are due.
  void AddQueries() {
    const int64_t end = std::min(waiting_.end(), request_.row_end);
    if (next_ < waiting_.begin || next_ >= end) return;
    const View<T> to = Begin(end - next_);
    for (int64_t b = 0; b < B_; ++b) {
      for (int64_t h = 0; h < heads_; ++h) {
        for (int64_t r = 0; r < to.dim(2); ++r) {
          std::fill_n(to.at(b, h, r), tokens_, T(0));
          to.at(b, h, r)[next_ + r] = 1;
        }
      }
    }
    End(to);
  }

 private:
  void AddOthers(View<const T> weights) {
    const View<T> to = Begin(weights.dim(2));
    for (int64_t b = 0; b < B_; ++b) {
      for (int64_t h = 0; h < heads_; ++h) {
        for (int64_t r = 0; r < to.dim(2); ++r) {
          const T* from = weights.at(b, h, r);
          T* out = std::copy_n(from, waiting_.begin, to.at(b, h, r));
          out = std::fill_n(out, waiting_.count, T(0));
          std::copy_n(from + waiting_.begin, tokens_ - waiting_.end(), out);
        }
      }
    }
    End(to);
  }
  // Where the next rows go: [B, heads, rows, N].
  View<T> Begin(int64_t rows) {
    if (!request_.visit) {
      const int64_t first = next_ - request_.row_begin;
      return request_.out.slice(2, first, first + rows);
    }
    rows_.Reuse({B_, heads_, rows, tokens_});
    return rows_;
  }
  void End(View<T> to) {
    const int64_t row = next_;
    next_ += to.dim(2);
    if (request_.visit) request_.visit(row, to);
  }

  const nn::WeightsRequest<T>& request_;
  const WaitingQueries waiting_;
  const int64_t B_, heads_, tokens_;
  int64_t next_;  // row that is due
  Tensor<T> rows_;
};

}  // namespace

template <typename T>
void InsertQueries(View<const T> x, View<const T> queries, int64_t begin, View<T> out) {
  const int64_t B = x.dim(0), N = x.dim(1), D = x.dim(2), count = queries.dim(0);
  Require(out.shape() == Shape({B, N + count, D}) && x.dense() && out.dense(),
          "forward: an output is {}, expected [{}, {}, {}], dense", out.shape(), B, N + count, D);
  for (int64_t b = 0; b < B; ++b) {
    T* to = std::copy_n(x.at(b), begin * D, out.at(b));
    to = std::copy_n(queries.data(), count * D, to);
    std::copy_n(x.at(b, begin), (N - begin) * D, to);
  }
}

template <typename T>
View<T> WithoutQueries(View<const T> tokens, const WaitingQueries& waiting, Arena& arena) {
  const int64_t B = tokens.dim(0), N = tokens.dim(1), D = tokens.dim(2);
  const View<T> others = arena.New<T>({B, N - waiting.count, D});
  for (int64_t b = 0; b < B; ++b) {
    T* to = std::copy_n(tokens.at(b), waiting.begin * D, others.at(b));
    std::copy_n(tokens.at(b, waiting.end()), (N - waiting.end()) * D, to);
  }
  return others;
}

template <typename T>
std::vector<nn::WeightsRequest<T>> RequestsWithoutQueries(std::span<const nn::WeightsRequest<T>> requests, int64_t B,
                                                          int64_t heads, const WaitingQueries& waiting,
                                                          int64_t tokens) {
  const auto other = [&](int64_t row) {  // the index among the other tokens
    return row <= waiting.begin ? row : std::max(waiting.begin, row - waiting.count);
  };
  std::vector<nn::WeightsRequest<T>> others;
  for (const nn::WeightsRequest<T>& request : requests) {
    const auto completer = std::make_shared<RowCompleter<T>>(request, B, heads, waiting, tokens);
    const int64_t begin = other(request.row_begin), end = other(request.row_end);
    completer->AddQueries();
    if (begin == end) continue;
    others.push_back({.row_begin = begin,
                      .row_end = end,
                      .out = {},
                      .visit = [completer](int64_t row, View<const T> weights) { completer->Add(row, weights); },
                      .head_begin = request.head_begin,
                      .head_end = request.head_end});
  }
  return others;
}

#define QKV_INSTANTIATE(T)                                                                                            \
  template void InsertQueries(View<const T>, View<const T>, int64_t, View<T>);                                        \
  template View<T> WithoutQueries(View<const T>, const WaitingQueries&, Arena&);                                      \
  template std::vector<nn::WeightsRequest<T>> RequestsWithoutQueries(std::span<const nn::WeightsRequest<T>>, int64_t, \
                                                                     int64_t, const WaitingQueries&, int64_t);
QKV_INSTANTIATE(float)
QKV_INSTANTIATE(double)
#undef QKV_INSTANTIATE

}  // namespace qkv::model
