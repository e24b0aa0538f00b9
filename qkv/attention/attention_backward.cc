// Checks, and the split of the gradient into tasks; the arithmetic is simd/attention_gradient.
#include <algorithm>
#include <span>
#include <type_traits>

#include "qkv/attention/attention.h"
#include "qkv/attention/task.h"
#include "qkv/core/parallel.h"
#include "qkv/simd/attention_bf16.h"
#include "qkv/simd/attention_gradient.h"

namespace qkv::attention {
namespace {

// Queries of a task that computes dq alone; its keys are copied once.
constexpr int64_t kTaskRows = 4 * simd::kAttentionGradientRows;

template <typename T>
void Check(const BackwardTensors<T>& x, const Options<T>& options) {
  CheckQueriesAndKeys(x.q, x.k);
  CheckValues(x.k, x.v);
  const int64_t B = x.q.dim(0), H = x.q.dim(1), N_q = x.q.dim(2), N_k = x.k.dim(2), E_v = x.v.dim(3);
  const auto expect = [](const char* name, auto view, const Shape& shape) {
    Require(view.shape() == shape, "attention backward: expected {} {}, got {}", name, ToString(shape),
            ToString(view.shape()));
    Require(view.rank() < 4 || view.stride(3) == 1 || view.dim(3) <= 1,
            "attention backward: expected a dense last axis of {}", name);
  };
  expect("out", x.out, {B, H, N_q, E_v}), expect("dout", x.dout, {B, H, N_q, E_v}), expect("lse", x.lse, {B, H, N_q});
  expect("dq", x.dq, x.q.shape()), expect("dk", x.dk, x.k.shape()), expect("dv", x.dv, x.v.shape());
  CheckOptions(options, B, H, N_q, N_k);
  Require(x.dbias.empty() || x.dbias.shape() == options.bias.shape(),
          "attention backward: expected dbias like bias {}, got {}", ToString(options.bias.shape()),
          ToString(x.dbias.shape()));
}

// The work on one set of tensors.
template <typename T>
class Backward {
 public:
  Backward(const BackwardTensors<T>& tensors, const Options<T>& options, Arena& arena)
      : x_(tensors),
        bf16_(Bf16Kernel(options, tensors.q.dim(2))),
        delta_(arena.New<T>({B_, H_, N_q_})),
        heads_(arena.New<simd::AttentionGradientTask<T>>({B_ * H_})),
        scratch_(arena.New<T>({NumThreads(), (ScratchNeeded() + 63) / 64 * 64})) {
    for (int64_t b = 0; b < B_; ++b) {
      for (int64_t h = 0; h < H_; ++h) *heads_.at(b * H_ + h) = Head(options, b, h);
    }
  }

  void Run() {
    // Alone, a group of heads that share keys costs five products; the gradients of its keys and of its queries apart
    // cost four and three, but are cut as finely as one likes.
    const int64_t groups = B_ * H_kv_, threads = NumThreads();
    const int64_t rounds = (groups + threads - 1) / threads;
    const bool shared_bias = BiasSharedBy(0) || BiasSharedBy(1);
    if (!shared_bias && 5 * rounds * threads <= 7 * groups) {
      RunGroups();
    } else {
      RunKeysAndQueries();
    }
  }

 private:
  simd::AttentionGradientTask<T> Head(const Options<T>& options, int64_t b, int64_t h) const {
    simd::AttentionGradientTask<T> head;
    FillScores(x_.q, x_.k, options, b, h, 0, N_q_, head);
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

  void Delta(int64_t head, int64_t row, int64_t rows) {
    const int64_t b = head / H_, h = head % H_;
    simd::AttentionDelta(x_.out.at(b, h, row), x_.out.stride(2), x_.dout.at(b, h, row), x_.dout.stride(2), rows, E_v_,
                         delta_.at(b, h, row));
  }

  // The bias gradients of heads begin … end − 1 for the keys of some blocks; a slice that is shared is cleared again.
  void ClearBias(int64_t head, int64_t block_begin, int64_t block_end) {
    const simd::AttentionGradientTask<T>& task = *heads_.at(head);
    if (!task.dbias) return;
    const int64_t begin = simd::AttentionGradientKey(block_begin, N_k_, block_keys_);
    const int64_t end = simd::AttentionGradientKey(block_end, N_k_, block_keys_);
    for (int64_t i = 0; i < x_.dbias.dim(2); ++i) {
      for (int64_t j = begin; j < end; ++j) task.dbias[i * x_.dbias.stride(2) + j * task.dbias_key_stride] = 0;
    }
  }

  void RunGroups() {
    const int64_t size = H_ / H_kv_;
    ParallelTasks(B_ * H_kv_, [&](int64_t group, int thread) {
      for (int64_t head = group * size; head < (group + 1) * size; ++head) {
        Delta(head, 0, N_q_);
        ClearBias(head, 0, key_blocks_);
      }
      Gradient(Group(group), {.row_end = N_q_, .key_block_end = key_blocks_}, scratch_.row(thread));
    });
  }

  void RunKeysAndQueries() {
    const int64_t pieces = (N_q_ + kTaskRows - 1) / kTaskRows;
    const auto rows_of = [&](int64_t piece) { return std::min(kTaskRows, N_q_ - piece * kTaskRows); };
    ParallelTasks(B_ * H_ * pieces,
                  [&](int64_t t, int) { Delta(t / pieces, t % pieces * kTaskRows, rows_of(t % pieces)); });
    // Heads that share a bias take turns within a task, in the order of the heads.
    const int64_t b_step = BiasSharedBy(0) ? B_ : 1, h_step = BiasSharedBy(1) ? H_kv_ : 1;
    const int64_t key_tasks = B_ / b_step * (H_kv_ / h_step) * key_blocks_;
    ParallelTasks(key_tasks + B_ * H_ * pieces, [&](int64_t t, int thread) {
      if (t < key_tasks) {
        const int64_t block = t % key_blocks_, set = t / key_blocks_;
        const int64_t b = set / (H_kv_ / h_step) * b_step, h = set % (H_kv_ / h_step) * h_step;
        RunKeys(b, b + b_step, h, h + h_step, block, scratch_.row(thread));
      } else {
        const int64_t head = (t - key_tasks) / pieces, piece = (t - key_tasks) % pieces, row = piece * kTaskRows;
        Gradient({heads_.at(head), 1},
                 {.dk_dv = false, .row_begin = row, .row_end = row + rows_of(piece), .key_block_end = key_blocks_},
                 scratch_.row(thread));
      }
    });
  }

  // dk, dv and dbias of one block of keys.
  void RunKeys(int64_t b_begin, int64_t b_end, int64_t h_begin, int64_t h_end, int64_t block, T* scratch) {
    const int64_t size = H_ / H_kv_;
    for (int64_t b = b_begin; b < b_end; ++b) {
      for (int64_t h = h_begin * size; h < h_end * size; ++h) ClearBias(b * H_ + h, block, block + 1);
    }
    for (int64_t b = b_begin; b < b_end; ++b) {
      for (int64_t h = h_begin; h < h_end; ++h) {
        Gradient(Group(b * H_kv_ + h),
                 {.dq = false, .row_end = N_q_, .key_block_begin = block, .key_block_end = block + 1}, scratch);
      }
    }
  }

  const BackwardTensors<T>& x_;
  const simd::internal::TileKernel* const bf16_;  // null: products in T
  const int64_t B_ = x_.q.dim(0), H_ = x_.q.dim(1), H_kv_ = x_.k.dim(1), N_q_ = x_.q.dim(2), N_k_ = x_.k.dim(2);
  const int64_t E_ = x_.q.dim(3), E_v_ = x_.v.dim(3);
  const int64_t block_keys_ = bf16_ ? simd::kAttentionGradientKeysBf16 : simd::kAttentionGradientKeys;
  const int64_t key_blocks_ = simd::AttentionGradientKeyBlocks(N_k_, block_keys_);
  View<T> delta_;                               // [B, H, N_q]
  View<simd::AttentionGradientTask<T>> heads_;  // [B · H]
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
