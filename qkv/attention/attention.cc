// The fused call: checks shapes, broadcasts, and splits the work into tasks. Not here: the arithmetic
// (simd/attention/tile.h).
#include "qkv/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <type_traits>

#include "qkv/attention/head_scores.h"
#include "qkv/core/parallel.h"
#include "qkv/simd/attention/bf16.h"
#include "qkv/simd/attention/tile.h"

namespace qkv::attention {
namespace {

// Maximum queries per task: enough to amortise packing the keys (dearer in bfloat16), few enough that their state fits
// L2.
constexpr int64_t kTaskRows = 256, kTaskRowsBf16 = 512;
// Several tasks per thread, so that a delayed thread does not hold up the others for long.
constexpr int64_t kTasksPerThread = 4, kTasksPerThreadBf16 = 2;

// With at most kFewRows queries, work is split along the keys into parts of at most kPartKeys. The split depends only
// on the queries and keys of one head, so results do not depend on the other heads or on the number of threads.
constexpr int64_t kFewRows = 16, kPartKeys = 1024;

// Splits the queries of one head into tasks of whole kernel panels: few tasks, so that keys are packed seldom, but
// enough for all threads. If threads would idle for a tenth of the time, up to twice as many tasks are tried, until
// they divide evenly.
template <typename T>
class RowCut {
 public:
  RowCut(int64_t heads, int64_t rows, bool bf16 = false)
      : rows_(rows), panel_(simd::AttentionPanel<T>()), panels_((rows + panel_ - 1) / panel_) {
    const int threads = NumThreads();
    const int64_t wanted = threads * (bf16 ? kTasksPerThreadBf16 : kTasksPerThread);
    const int64_t most_rows = bf16 ? kTaskRowsBf16 : kTaskRows;
    count_ = std::min(panels_, std::max((wanted + heads - 1) / heads, (rows + most_rows - 1) / most_rows));
    const auto uneven = [&](int64_t count) {
      const int64_t tasks = heads * count;
      return 10 * ((tasks + threads - 1) / threads * threads) > 11 * tasks;
    };
    int64_t even = count_;
    while (uneven(even) && even < std::min(panels_, 2 * count_)) ++even;
    if (!uneven(even)) count_ = even;
  }

  int64_t count() const { return count_; }
  int64_t begin(int64_t task) const { return std::min(rows_, task * panels_ / count_ * panel_); }
  int64_t rows(int64_t task) const { return begin(task + 1) - begin(task); }
  /// Maximum rows of a task.
  int64_t most_rows() const { return std::min(rows_, (panels_ + count_ - 1) / count_ * panel_); }

 private:
  int64_t rows_, panel_, panels_, count_;
};

// Views [B, H, 1, …] as [B, H_kv, H / H_kv, …], and [H] as [H_kv, H / H_kv]; a view that all heads share stays as it
// is.
template <typename T>
View<T> GroupsAsQueries(View<T> view, int64_t H_kv) {
  if (view.empty()) return view;
  if (view.rank() == 1) {  // sinks
    const int64_t group = view.dim(0) / H_kv;
    return View<T>(view.data(), {H_kv, group}, {group * view.stride(0), view.stride(0)});
  }
  if (view.dim(1) == 1) return view;
  const int64_t group = view.dim(1) / H_kv;
  auto strides = view.strides();
  strides[1] = group * view.stride(1), strides[2] = view.stride(1);
  if (view.rank() == 3) return View<T>(view.data(), {view.dim(0), H_kv, group}, strides);
  return View<T>(view.data(), {view.dim(0), H_kv, group, view.dim(3)}, strides);
}

// The keys [begin, end) of a batch entry that its queries read.
struct KeyRange {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
};

// Range of keys that the queries of batch entry b read; with a window, only keys that some query sees. A single query,
// as in decoding, then has no hidden keys, so queries of several heads can share a task. With dropout the range starts
// at key 0, because the random mask counts keys from there.
template <typename T>
class KeyRanges {
 public:
  KeyRanges(const Options<T>& options, int64_t N_q, int64_t N_k) : options_(options), N_q_(N_q), N_k_(N_k) {}
  KeyRange operator()(int64_t b) const {
    const int64_t length = KeyLength(options_, b, N_k_);
    if ((options_.window_left < 0 && options_.window_right < 0) || options_.dropout > 0) return {0, length};
    const KeyWindow window(options_);
    const int64_t position = FirstPosition(options_, N_q_, length);
    const int64_t begin = std::clamp<int64_t>(position + window.first, 0, length);
    return {begin, std::clamp(position + N_q_ - 1 + window.end, begin, length)};
  }
  int64_t Longest(int64_t B) const {
    int64_t longest = 0;
    for (int64_t b = 0; b < B; ++b) longest = std::max(longest, (*this)(b).size());
    return longest;
  }

 private:
  const Options<T>& options_;
  int64_t N_q_, N_k_;
};

// Restricts a task to a range of its keys.
template <typename T>
void KeepKeys(const KeyRange& range, simd::AttentionScores<T>& task) {
  task.keys = range.size(), task.first -= range.begin, task.visible -= range.begin;
  task.k += range.begin * task.k_stride;
  if (task.bias) task.bias += range.begin * task.bias_key_stride;
  if (task.mask) task.mask += range.begin * task.mask_key_stride;
}

// Operands of the fused call; grouped heads may already be viewed as queries.
template <typename T>
struct Call {
  View<const T> q, k, v;
  const Options<T>& options;
  const KeyRanges<T>& ranges;
  View<T> out, lse;

  simd::AttentionTask<T> Task(int64_t b, int64_t h, int64_t row, int64_t rows) const {
    simd::AttentionTask<T> task;
    FillScores(q, k, options, b, h, row, rows, task);
    KeepKeys(ranges(b), task);
    task.v = v.at(b, h / (q.dim(1) / k.dim(1)), ranges(b).begin), task.v_stride = v.stride(2), task.E_v = v.dim(3);
    task.out = out.at(b, h, row), task.out_stride = out.stride(2);
    if (!lse.empty()) task.lse = lse.at(b, h, row), task.lse_stride = lse.stride(2);
    return task;
  }
};

// Attention of few queries to many keys. Parts of the keys are separate tasks (as in Dao et al., Flash-Decoding, 2023),
// combined by their maxima and sums.
template <typename T>
class SplitKeys {
 public:
  SplitKeys(const Call<T>& call, Arena& arena)
      : q_(call.q),
        k_(call.k),
        v_(call.v),
        call_(call),
        out_(arena.New<T>({q_.dim(0), q_.dim(1), most_parts_, q_.dim(2), v_.dim(3)})),
        max_(arena.New<T>({q_.dim(0), q_.dim(1), most_parts_, q_.dim(2)})),
        sum_(arena.New<T>({q_.dim(0), q_.dim(1), most_parts_, q_.dim(2)})),
        scratch_(
            arena.New<T>({NumThreads(), (simd::AttentionScratch<T>(q_.dim(2), q_.dim(3), v_.dim(3)) + 63) / 64 * 64})) {
  }

  void Run() {
    const int64_t H = q_.dim(1);
    ParallelTasks(q_.dim(0) * H * most_parts_, [&](int64_t t, int thread) {
      const int64_t head = t / most_parts_;
      Part(head / H, head % H, t % most_parts_, scratch_.row(thread));
    });
    ParallelTasks(q_.dim(0) * H, [&](int64_t t, int) {
      for (int64_t i = 0; i < q_.dim(2); ++i) Join(t / H, t % H, i);
    });
  }

 private:
  static int64_t Parts(int64_t keys) { return std::max<int64_t>(1, (keys + kPartKeys - 1) / kPartKeys); }

  void Part(int64_t b, int64_t h, int64_t part, T* scratch) {
    const KeyRange keys = call_.ranges(b);
    const int64_t parts = Parts(keys.size());
    if (part >= parts) return;  // this batch entry has fewer parts than the longest
    simd::AttentionTask<T> task = call_.Task(b, h, 0, q_.dim(2));
    const int64_t begin = part * task.keys / parts, end = (part + 1) * task.keys / parts;
    KeepKeys({begin, end}, task);
    if (part > 0) task.sinks = nullptr;  // a row's sum has it once
    task.v += begin * task.v_stride;
    task.out = out_.at(b, h, part), task.out_stride = out_.stride(3);
    task.max = max_.at(b, h, part), task.sum = sum_.at(b, h, part);
    // A single part uses the same kernel as an unsplit task.
    task.rows == 1 && parts > 1 ? simd::AttentionRow(task, scratch) : simd::AttentionTile(task, scratch);
  }

  void Join(int64_t b, int64_t h, int64_t i) {
    constexpr T kInfinity = std::numeric_limits<T>::infinity();
    const int64_t parts = Parts(call_.ranges(b).size());
    T max = -kInfinity, total = 0;
    for (int64_t part = 0; part < parts; ++part) max = std::max(max, *max_.at(b, h, part, i));
    T* const row = call_.out.at(b, h, i);
    std::fill_n(row, v_.dim(3), T{0});
    for (int64_t part = 0; part < parts; ++part) {
      const T part_max = *max_.at(b, h, part, i);
      // Equal maxima may both be infinite, so their difference is not taken.
      T& weight = *sum_.at(b, h, part, i);
      weight *= part_max == max ? T{1} : std::exp2(part_max - max);
      total += weight;
    }
    for (int64_t part = 0; part < parts; ++part) {
      const T weight = *sum_.at(b, h, part, i);
      if (weight == 0) continue;
      const T* from = out_.at(b, h, part, i);
      for (int64_t e = 0; e < v_.dim(3); ++e) row[e] += weight / total * from[e];
    }
    if (!call_.lse.empty()) *call_.lse.at(b, h, i) = max * std::numbers::ln2_v<T> + std::log(total);
  }

  View<const T> q_, k_, v_;
  const Call<T>& call_;
  const int64_t most_parts_ = Parts(call_.ranges.Longest(q_.dim(0)));
  View<T> out_;        // [B, H, parts, N_q, E_v]
  View<T> max_, sum_;  // [B, H, parts, N_q]
  View<T> scratch_;    // [threads, …]
};

// Splits the queries into tasks of whole panels.
template <typename T>
void SplitRows(const Call<T>& call, Arena& arena) {
  const View<const T>&q = call.q, &k = call.k, &v = call.v;
  const int64_t B = q.dim(0), H = q.dim(1), N_q = q.dim(2), E = q.dim(3), E_v = v.dim(3);
  const simd::internal::TileKernel* const bf16 = Bf16Kernel(call.options, N_q);
  const RowCut<T> cut(B * H, N_q, bf16 != nullptr);
  const int64_t scratch_needed =
      bf16 ? simd::AttentionBf16Scratch(cut.most_rows(), E, E_v) : simd::AttentionScratch<T>(cut.most_rows(), E, E_v);
  const int64_t scratch_size = (scratch_needed + 63) / 64 * 64;
  const View<T> scratch = arena.New<T>({NumThreads(), scratch_size});
  const int64_t tasks = B * H * cut.count();
  ParallelTasks(tasks, [&](int64_t t, int thread) {
    const int64_t b = t / cut.count() / H, h = t / cut.count() % H, row = cut.begin(t % cut.count());
    simd::AttentionTask<T> task = call.Task(b, h, row, cut.rows(t % cut.count()));
    if constexpr (std::is_same_v<T, float>) {
      if (bf16) return simd::AttentionTileBf16(task, *bf16, scratch.row(thread));
    }
    // Prefetch hint: usually this thread runs task t + 1 next.
    if (const int64_t next = t + 1; next < tasks) {
      const int64_t next_b = next / cut.count() / H, next_h = next / cut.count() % H;
      const int64_t next_row = cut.begin(next % cut.count());
      const int64_t next_kv = next_h / (H / k.dim(1));
      if (next_row + task.rows <= N_q) {
        task.next_q = q.at(next_b, next_h, next_row), task.next_k = k.at(next_b, next_kv);
        task.next_v = v.at(next_b, next_kv);
      }
    }
    simd::AttentionTile(task, scratch.row(thread));
  });
}

template <typename T>
void Run(const Call<T>& call, Arena& arena) {
  const int64_t B = call.q.dim(0), N_q = call.q.dim(2);
  const Arena::Scope scope(arena);
  if (N_q <= kFewRows && !(call.options.dropout > 0) && call.ranges.Longest(B) > kPartKeys) {
    SplitKeys<T>(call, arena).Run();
  } else {
    SplitRows(call, arena);
  }
}

}  // namespace

template <typename T>
void Attention(View<const T> q, View<const T> k, View<const T> v, const Options<T>& options, View<T> out, Arena& arena,
               View<T> lse) {
  CheckQueriesAndKeys(q, k);
  const int64_t B = q.dim(0), H = q.dim(1), N_q = q.dim(2), N_k = k.dim(2);
  CheckValues(k, v);
  const int64_t E_v = v.dim(3);
  Require(out.shape() == Shape({B, H, N_q, E_v}), "attention: expected out [{}, {}, {}, {}], got {}", B, H, N_q, E_v,
          out.shape());
  Require(out.stride(3) == 1 || E_v <= 1, "attention: expected a dense last axis of out");
  Require(lse.empty() || lse.shape() == Shape({B, H, N_q}), "attention: expected lse [{}, {}, {}], got {}", B, H, N_q,
          lse.shape());
  CheckOptions(options, B, H, N_q, N_k);
  if (B * H * N_q == 0) return;
  const KeyRanges<T> ranges(options, N_q, N_k);
  const bool sees_range =
      options.causal == Causal::kNone || (options.causal == Causal::kBottomRight && options.first_position >= 0);
  if (const int64_t H_kv = k.dim(1); N_q == 1 && H_kv < H && sees_range && !(options.dropout > 0)) {
    // Decoding: the single queries of heads that share keys become the queries of one head. The range of keys replaces
    // the causal order and the window.
    Options<T> grouped = options;
    grouped.causal = Causal::kNone, grouped.window_left = grouped.window_right = -1, grouped.first_position = 0;
    grouped.bias = GroupsAsQueries(options.bias, H_kv), grouped.mask = GroupsAsQueries(options.mask, H_kv);
    grouped.sinks = GroupsAsQueries(options.sinks, H_kv);
    return Run<T>(
        {GroupsAsQueries(q, H_kv), k, v, grouped, ranges, GroupsAsQueries(out, H_kv), GroupsAsQueries(lse, H_kv)},
        arena);
  }
  Run<T>({q, k, v, options, ranges, out, lse}, arena);
}

template void Attention(View<const float>, View<const float>, View<const float>, const Options<float>&, View<float>,
                        Arena&, View<float>);
template void Attention(View<const double>, View<const double>, View<const double>, const Options<double>&,
                        View<double>, Arena&, View<double>);

template <typename T>
void AttentionWeights(View<const T> q, View<const T> k, const Options<T>& options, int64_t row_begin, int64_t row_end,
                      View<T> out) {
  CheckQueriesAndKeys(q, k);
  const int64_t B = q.dim(0), H = q.dim(1), N_q = q.dim(2), N_k = k.dim(2), E = q.dim(3);
  Require(0 <= row_begin && row_begin <= row_end && row_end <= N_q, "attention: no rows {}..{} among {} queries",
          row_begin, row_end, N_q);
  const int64_t rows = row_end - row_begin;
  Require(out.shape() == Shape({B, H, rows, N_k}), "attention: expected weights [{}, {}, {}, {}], got {}", B, H, rows,
          N_k, out.shape());
  Require(out.stride(3) == 1 || N_k <= 1, "attention: expected a dense last axis of the weights");
  CheckOptions(options, B, H, N_q, N_k);
  if (B * H * rows == 0) return;

  const RowCut<T> cut(B * H, rows);
  const int64_t scratch_size = (simd::AttentionScratch<T>(cut.most_rows(), E, 0) + 63) / 64 * 64;
  // Reused across calls, so that only the first call allocates.
  static thread_local Tensor<T> scratch;
  if (scratch.size() < NumThreads() * scratch_size) scratch = Tensor<T>::Uninitialised({NumThreads() * scratch_size});
  T* const first = scratch.data();
  ParallelTasks(B * H * cut.count(), [&](int64_t t, int thread) {
    const int64_t b = t / cut.count() / H, h = t / cut.count() % H, row = cut.begin(t % cut.count());
    simd::AttentionTask<T> task;
    FillScores(q, k, options, b, h, row_begin + row, cut.rows(t % cut.count()), task);
    task.out = out.at(b, h, row), task.out_stride = out.stride(2);
    simd::AttentionTileWeights(task, first + thread * scratch_size);
    for (int64_t i = 0; i < task.rows; ++i) {
      std::fill_n(task.out + i * task.out_stride + task.keys, N_k - task.keys, T{0});
    }
  });
}

template void AttentionWeights(View<const float>, View<const float>, const Options<float>&, int64_t, int64_t,
                               View<float>);
template void AttentionWeights(View<const double>, View<const double>, const Options<double>&, int64_t, int64_t,
                               View<double>);

}  // namespace qkv::attention
