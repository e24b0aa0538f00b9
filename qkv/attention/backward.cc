// The gradient: checks shapes and splits the work into tasks. Not here: the arithmetic (simd/attention/backward.h).
#include "qkv/simd/attention/backward.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

#include "qkv/attention/attention.h"
#include "qkv/attention/head_scores.h"
#include "qkv/core/parallel.h"
#include "qkv/simd/attention/bf16.h"

namespace qkv::attention {
namespace {

// Rows per task that computes the sums dout · out.
constexpr int64_t kDeltaRows = 256;

template <typename T>
void Check(const BackwardTensors<T>& x, const Options<T>& options) {
  CheckQueriesAndKeys(x.q, x.k);
  CheckValues(x.k, x.v);
  const int64_t B = x.q.dim(0), H = x.q.dim(1), N_q = x.q.dim(2), N_k = x.k.dim(2), E_v = x.v.dim(3);
  const auto expect = [](const char* name, auto view, const Shape& shape) {
    Require(view.shape() == shape, "attention backward: expected {} {}, got {}", name, shape, view.shape());
    Require(view.rank() < 4 || view.stride(3) == 1 || view.dim(3) <= 1,
            "attention backward: expected a dense last axis of {}", name);
  };
  expect("out", x.out, {B, H, N_q, E_v}), expect("dout", x.dout, {B, H, N_q, E_v}), expect("lse", x.lse, {B, H, N_q});
  expect("dq", x.dq, x.q.shape()), expect("dk", x.dk, x.k.shape()), expect("dv", x.dv, x.v.shape());
  CheckOptions(options, B, H, N_q, N_k);
  Require(x.dbias.empty() || x.dbias.shape() == options.bias.shape(),
          "attention backward: expected dbias like bias {}, got {}", options.bias.shape(), x.dbias.shape());
  Require(x.dsinks.empty() || x.dsinks.shape() == options.sinks.shape(),
          "attention backward: expected dsinks like sinks {}, got {}", options.sinks.shape(), x.dsinks.shape());
}

// The gradient of one set of tensors.
template <typename T>
class Backward {
 public:
  Backward(const BackwardTensors<T>& tensors, const Options<T>& options, Arena& arena)
      : x_(tensors),
        sinks_(options.sinks),
        bf16_(Bf16Kernel(options, tensors.q.dim(2))),
        delta_(arena.New<T>({B_, H_, N_q_})),
        heads_(arena.New<simd::AttentionGradientTask<T>>({B_ * H_})),
        progress_(arena.New<int64_t>({B_ * H_kv_, key_blocks_})),
        scratch_(arena.New<T>({NumThreads(), (ScratchNeeded() + 63) / 64 * 64})) {
    for (int64_t b = 0; b < B_; ++b) {
      for (int64_t h = 0; h < H_; ++h) *heads_.at(b * H_ + h) = Head(options, b, h);
    }
  }

  void Run() {
    RunDelta();
    if (!x_.dsinks.empty()) RunSinks();
    // One thread computes all heads that share keys or a bias, in the order of the heads. If that leaves threads idle
    // for a tenth of the time, threads work on different blocks of keys of the same heads instead, each some blocks of
    // queries behind the previous one: two threads need 0.75 of the time for one head of 4096 tokens, 0.83 for three of
    // 197. This occupies as many threads as there are blocks of keys in all.
    const int64_t sets = B_ / b_step_ * (H_kv_ / h_step_), threads = NumThreads();
    const int64_t rounds = (sets + threads - 1) / threads;
    if (10 * rounds * threads <= 11 * sets) {
      ParallelTasks(sets, [&](int64_t set, int thread) { RunSet(set, 0, key_blocks_, nullptr, scratch_.row(thread)); });
    } else {
      RunRelay(sets * key_blocks_);
    }
  }

 private:
  simd::AttentionGradientTask<T> Head(const Options<T>& options, int64_t b, int64_t h) const {
    simd::AttentionGradientTask<T> head;
    FillScores(x_.q, x_.k, options, b, h, 0, N_q_, head);
    // Blocks divide all N_k keys: a bias that entries of several lengths share has one gradient, whose blocks must be
    // the same for all of them.
    head.key_end = std::exchange(head.keys, N_k_);
    const int64_t h_kv = h / (H_ / H_kv_);
    head.v = x_.v.at(b, h_kv), head.v_stride = x_.v.stride(2), head.E_v = E_v_;
    head.lse = x_.lse.at(b, h), head.lse_stride = x_.lse.stride(2);
    head.dout = x_.dout.at(b, h), head.dout_stride = x_.dout.stride(2);
    head.delta = delta_.at(b, h);
    head.dq = x_.dq.at(b, h), head.dq_stride = x_.dq.stride(2);
    head.dk = x_.dk.at(b, h_kv), head.dk_stride = x_.dk.stride(2);
    head.dv = x_.dv.at(b, h_kv), head.dv_stride = x_.dv.stride(2);
    if (x_.dbias.empty()) return head;
    head.dbias = x_.dbias.data() + b * BroadcastStride(x_.dbias, 0) + h * BroadcastStride(x_.dbias, 1);
    head.dbias_stride = BroadcastStride(x_.dbias, 2), head.dbias_key_stride = x_.dbias.stride(3);
    return head;
  }

  bool BiasSharedBy(int axis) const { return !x_.dbias.empty() && x_.dbias.dim(axis) < x_.q.dim(axis); }

  // The heads that share the keys of (b, h_kv).
  std::span<const simd::AttentionGradientTask<T>> Group(int64_t group) const {
    const int64_t size = H_ / H_kv_;
    return {heads_.at(group * size), static_cast<size_t>(size)};
  }

  int64_t ScratchNeeded() const {
    return bf16_ ? simd::AttentionGradientBf16Scratch(E_, E_v_) : simd::AttentionGradientScratch<T>(E_, E_v_);
  }

  void Gradient(std::span<const simd::AttentionGradientTask<T>> heads, const simd::AttentionGradientPart& part,
                T* scratch) const {
    if constexpr (std::is_same_v<T, float>) {
      if (bf16_) return simd::AttentionGradientBf16(heads, part, *bf16_, scratch);
    }
    simd::AttentionGradient(heads, part, scratch);
  }

  void RunDelta() {
    const int64_t pieces = (N_q_ + kDeltaRows - 1) / kDeltaRows;
    ParallelTasks(B_ * H_ * pieces, [&](int64_t t, int) {
      const int64_t head = t / pieces, row = t % pieces * kDeltaRows, rows = std::min(kDeltaRows, N_q_ - row);
      const int64_t b = head / H_, h = head % H_;
      simd::AttentionDelta(x_.out.at(b, h, row), x_.out.stride(2), x_.dout.at(b, h, row), x_.dout.stride(2), rows, E_v_,
                           delta_.at(b, h, row));
    });
  }

  // A sink has no value, so the gradient of its weight is 0, and that of its score −weight · delta.
  void RunSinks() {
    ParallelTasks(H_, [&](int64_t h, int) {
      double sum = 0;
      for (int64_t b = 0; b < B_; ++b) {
        for (int64_t i = 0; i < N_q_; ++i) {
          const T lse = *x_.lse.at(b, h, i);
          if (lse > -std::numeric_limits<T>::infinity()) sum -= std::exp(*sinks_.at(h) - lse) * *delta_.at(b, h, i);
        }
      }
      *x_.dsinks.at(h) = static_cast<T>(sum);
    });
  }

  // Blocks are handed out in order, so a thread waits only for a block that another thread is already computing.
  void RunRelay(int64_t turns) {
    std::fill_n(progress_.data(), progress_.size(), 0);
    std::atomic<int64_t> next{0};
    ParallelTasks(std::min<int64_t>(NumThreads(), turns), [&](int64_t, int thread) {
      for (int64_t turn; (turn = next.fetch_add(1, std::memory_order_relaxed)) < turns;) {
        const int64_t block = turn % key_blocks_;
        RunSet(turn / key_blocks_, block, block + 1, progress_.data(), scratch_.row(thread));
      }
    });
  }

  // Clears the gradient of a head's bias for the keys of some blocks; a shared slice is cleared several times.
  void ClearBias(int64_t head, int64_t block_begin, int64_t block_end) {
    const simd::AttentionGradientTask<T>& task = *heads_.at(head);
    if (!task.dbias) return;
    const int64_t begin = simd::AttentionGradientKey(block_begin, N_k_, block_keys_);
    const int64_t end = simd::AttentionGradientKey(block_end, N_k_, block_keys_);
    for (int64_t i = 0; i < x_.dbias.dim(2); ++i) {
      for (int64_t j = begin; j < end; ++j) task.dbias[i * x_.dbias.stride(2) + j * task.dbias_key_stride] = 0;
    }
  }

  // Computes some key blocks of a set: all batch entries and heads that share a bias, or one group of heads.
  void RunSet(int64_t set, int64_t block_begin, int64_t block_end, int64_t* progress, T* scratch) {
    const int64_t size = H_ / H_kv_, b_begin = set / (H_kv_ / h_step_) * b_step_, b_end = b_begin + b_step_;
    const int64_t h_begin = set % (H_kv_ / h_step_) * h_step_, h_end = h_begin + h_step_;
    for (int64_t b = b_begin; b < b_end; ++b) {
      for (int64_t h = h_begin * size; h < h_end * size; ++h) ClearBias(b * H_ + h, block_begin, block_end);
    }
    for (int64_t b = b_begin; b < b_end; ++b) {
      for (int64_t h = h_begin; h < h_end; ++h) {
        const int64_t group = b * H_kv_ + h;
        Gradient(Group(group), {block_begin, block_end, progress ? progress + group * key_blocks_ : nullptr}, scratch);
      }
    }
  }

  const BackwardTensors<T>& x_;
  const View<const T> sinks_;
  const simd::internal::TileKernel* const bf16_;  // null: products in T
  const int64_t B_ = x_.q.dim(0), H_ = x_.q.dim(1), H_kv_ = x_.k.dim(1), N_q_ = x_.q.dim(2), N_k_ = x_.k.dim(2);
  const int64_t E_ = x_.q.dim(3), E_v_ = x_.v.dim(3);
  // Batch entries and key heads per set.
  const int64_t b_step_ = BiasSharedBy(0) ? B_ : 1, h_step_ = BiasSharedBy(1) ? H_kv_ : 1;
  const int64_t block_keys_ = bf16_ ? simd::kAttentionGradientKeysBf16 : simd::kAttentionGradientKeys;
  const int64_t key_blocks_ = simd::AttentionGradientKeyBlocks(N_k_, block_keys_);
  View<T> delta_;                               // [B, H, N_q]
  View<simd::AttentionGradientTask<T>> heads_;  // [B · H]
  View<int64_t> progress_;                      // [B · H_kv, key blocks]
  View<T> scratch_;                             // [threads, …]
};

}  // namespace

template <typename T>
void AttentionBackward(const BackwardTensors<T>& tensors, const Options<T>& options, Arena& arena) {
  Check(tensors, options);
  if (tensors.q.dim(0) * tensors.q.dim(1) == 0) return;
  const Arena::Scope scope(arena);
  Backward<T>(tensors, options, arena).Run();
}

template void AttentionBackward(const BackwardTensors<float>&, const Options<float>&, Arena&);
template void AttentionBackward(const BackwardTensors<double>&, const Options<double>&, Arena&);

}  // namespace qkv::attention
