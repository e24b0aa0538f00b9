#include "qkv/train/optimizer/step.h"

#include <algorithm>
#include <cmath>

#include "qkv/core/parallel.h"
#include "qkv/core/rng.h"
#include "qkv/train/network/pair_network.h"
#include "qkv/train/network/sequence_network.h"

namespace qkv::train {
namespace {

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Sizes that the loss needs: tokens of an input, rows and columns of its logits.
struct Extent {
  int64_t tokens, rows, classes;
};

template <typename T>
Extent BatchExtent(const Network<T>& network, const View<const T>& /*pixels*/) {
  return {network.config().tokens(), 1, network.config().outputs()};
}
template <typename T>
Extent BatchExtent(const SequenceNetwork<T>& network, const View<const int32_t>& tokens) {
  return {tokens.dim(1), tokens.dim(1), network.config().outputs};
}
template <typename T>
Extent BatchExtent(const PairNetwork<T>& network, const PairInput& input) {
  return {input.source.dim(1) + input.target.dim(1), input.target.dim(1), network.config().decoder.outputs};
}

// Views the logits of B inputs in the network's output shape.
template <typename T>
View<T> ShapeLogits(const Network<T>&, int64_t /*B*/, View<T> rows) {
  return rows;
}
template <typename T>
View<T> ShapeLogits(const SequenceNetwork<T>&, int64_t B, View<T> rows) {
  return rows.reshape({B, rows.dim(0) / B, rows.dim(1)});
}
template <typename T>
View<T> ShapeLogits(const PairNetwork<T>&, int64_t B, View<T> rows) {
  return rows.reshape({B, rows.dim(0) / B, rows.dim(1)});
}

}  // namespace

// Threads with chunks of their own never synchronise within a batch; the layers of small models are too short to be
// split over threads. The price is one gradient buffer per thread, summed after the batch: 8 P bytes a thread through
// one memory, against 6 P N multiply-adds an input. At 100 GFLOP/s a thread and 40 GB/s of memory bandwidth this is a
// fraction 3 threads² / (B N) of the time. Own chunks are used up to a twentieth, if all buffers together are small for
// a machine with that many threads (kSmallBuffers), and if the layers are too short to be split (kSmallBuffer). Larger
// models gain nothing: a step of ViT-S/16 (87 MB), B 8, took the same time either way on two cores of a Zen 4 (more
// threads were not measured).
//
// A chunk has about kChunkTokens rows. With fewer, each product reads its weights and adds to their gradients for too
// little work; with more, activations leave the caches between two layers. On two cores of a Zen 5, a step of D 128,
// L 6, 65 tokens, B 128 took 261 ms with 65 rows, 220 with 130, 196 with 260, 182 with 520 and 185 with 1040.
StepPlan PlanStep(int64_t N, int64_t P, int64_t B, int threads) {
  constexpr int64_t kChunkTokens = 512;
  constexpr int64_t kSmallBuffer = int64_t{64} << 20, kSmallBuffers = int64_t{256} << 20;  // bytes
  const int64_t T = threads;
  const auto chunk_of = [&](int64_t inputs, int64_t tokens) { return std::clamp<int64_t>(tokens / N, 1, inputs); };
  const bool cheap = 60 * T * T <= B * N;
  const int64_t buffer = P * static_cast<int64_t>(sizeof(float));
  const bool small = buffer <= kSmallBuffer && T * buffer <= kSmallBuffers;
  if (T > 1 && B >= T && cheap && small) return {T, chunk_of(CeilDivide(B, T), kChunkTokens)};
  return {1, chunk_of(B, kChunkTokens * T)};
}

template <typename T, template <typename> class Net>
Stepper<T, Net>::Stepper(const Net<T>& network, Optimizer<T>& optimizer, const StepSettings& settings)
    : network_(network), optimizer_(optimizer), settings_(settings) {
  if (settings.processes && !settings.processes->alone()) reduction_.emplace(*settings.processes);
}

// Forward and backward for inputs [begin, end) of the batch.
template <typename T, template <typename> class Net>
void Stepper<T, Net>::Compute(Worker& worker, View<const T> weights, const Batch<T, Net>& batch, int64_t begin,
                              int64_t end, const std::function<void(int64_t, int64_t)>& finished) {
  NetworkOptions options;
  options.dropout = settings_.dropout;
  options.attention_dropout = settings_.attention_dropout;
  options.drop_path = settings_.drop_path;
  options.checkpointing = settings_.checkpointing;
  options.bf16 = settings_.bf16;
  options.seed = MixSeed(settings_.seed, static_cast<uint64_t>(optimizer_.steps()));
  options.first_image = batch.first + begin;
  const Extent of = BatchExtent<T>(network_, batch.inputs);
  const int64_t first = begin * of.rows, rows = (end - begin) * of.rows;
  worker.logits.Reuse({rows, of.classes});
  network_.Forward(weights, batch.inputs.slice(0, begin, end), options, worker.workspace,
                   ShapeLogits<T>(network_, end - begin, worker.logits));
  const LossOptions loss{.smoothing = settings_.smoothing};
  if (batch.targets.empty()) {
    const auto labels = batch.labels.subspan(static_cast<size_t>(first), static_cast<size_t>(rows));
    worker.sum += CrossEntropy<T>(worker.logits, labels, loss, worker.logits);
  } else {
    worker.sum += CrossEntropy<T>(worker.logits, batch.targets.slice(0, first, first + rows), loss, worker.logits);
  }
  network_.Backward(weights, ShapeLogits<T>(network_, end - begin, worker.logits), worker.workspace, worker.gradients,
                    finished);
}

template <typename T, template <typename> class Net>
void Stepper<T, Net>::Add(View<const T> weights, const Batch<T, Net>& batch, bool last) {
  const Extent of = BatchExtent<T>(network_, batch.inputs);
  const int64_t B = batch.inputs.dim(0), R = B * of.rows, P = network_.layout().size();
  Require(B > 0 && (!batch.targets.empty() || static_cast<int64_t>(batch.labels.size()) == R) &&
              (batch.targets.empty() || batch.targets.dim(0) == R),
          "step: expected a label or targets for each of {} rows, got {} labels and targets {}", R, batch.labels.size(),
          batch.targets.shape());
  const StepPlan plan = PlanStep(of.tokens, P, B, NumThreads());
  while (static_cast<int64_t>(workers_.size()) < plan.workers) {
    workers_.push_back(std::make_unique<Worker>());
    workers_.back()->gradients = Tensor<T>({P});
    gradients_.push_back(workers_.back()->gradients);
  }
  if (reduction_ && last) reduction_->Begin(gradients_, plan.workers);
  // Each worker owns a fixed share of the batch, on any thread, and splits it into even chunks.
  const auto run = [&](int64_t w) {
    const int64_t first = B * w / plan.workers, share = B * (w + 1) / plan.workers - first;
    const int64_t chunks = CeilDivide(share, plan.chunk);
    const std::function<void(int64_t, int64_t)> none;
    const std::function<void(int64_t, int64_t)> finished = [this, w](int64_t from, int64_t to) {
      reduction_->Finished(w, from, to);
    };
    for (int64_t i = 0; i < chunks; ++i) {
      const bool tells = reduction_ && last && i + 1 == chunks;
      Compute(*workers_[static_cast<size_t>(w)], weights, batch, first + share * i / chunks,
              first + share * (i + 1) / chunks, tells ? finished : none);
    }
  };
  try {
    if (plan.workers == 1) {
      run(0);  // not as a task: its layers run their loops in parallel
    } else {
      ParallelTasks(plan.workers, [&](int64_t w, int) { run(w); });
    }
  } catch (...) {
    DropPendingSums();
    throw;
  }
  for (const auto& worker : workers_) {
    sum_ += worker->sum;
    worker->sum = {};
  }
}

template <typename T, template <typename> class Net>
void Stepper<T, Net>::DropPendingSums() {
  for (const auto& worker : workers_) {
    std::fill_n(worker->gradients.data(), worker->gradients.size(), T{0});
    worker->sum = {};
  }
  sum_ = {};
}

// Sums gradients, loss and row counts.
template <typename T, template <typename> class Net>
void Stepper<T, Net>::SumOverProcesses() {
  if (!reduction_->begun()) {  // no Add had `last`
    reduction_->Begin(gradients_, 1);
    reduction_->Finished(0, 0, gradients_.front().size());
  }
  reduction_->End();
  double sums[] = {sum_.loss, static_cast<double>(sum_.rows), static_cast<double>(sum_.correct)};
  settings_.processes->Sum(sums);
  sum_ = {sums[0], std::llround(sums[1]), std::llround(sums[2])};
}

template <typename T, template <typename> class Net>
StepResult Stepper<T, Net>::Apply(double learning_rate, View<T> weights) {
  if (reduction_ && !gradients_.empty()) SumOverProcesses();
  Require(sum_.rows > 0, "step: nothing was added that counts");
  StepResult result;
  result.sum = sum_;
  try {
    if (!reduction_) SumGradients<T>(gradients_, 0, gradients_.front().size());
    const double mean = 1 / static_cast<double>(sum_.rows);
    result.gradient_norm = optimizer_.Step(learning_rate, weights, gradients_.front(), mean);
  } catch (...) {
    DropPendingSums();
    throw;
  }
  network_.Constrain(weights);
  // The average includes the unclamped weights.
  if (!optimizer_.average().empty()) network_.Constrain(optimizer_.mutable_average());
  sum_ = {};
  return result;
}

template <typename T, template <typename> class Net>
int64_t Stepper<T, Net>::peak_bytes() const {
  int64_t bytes = 0;
  for (const auto& worker : workers_) {
    bytes += static_cast<int64_t>(sizeof(T)) * (worker->gradients.size() + worker->logits.size());
    bytes += static_cast<int64_t>(worker->workspace.peak_bytes());
  }
  return bytes;
}

template class Stepper<float, Network>;
template class Stepper<double, Network>;
template class Stepper<float, SequenceNetwork>;
template class Stepper<double, SequenceNetwork>;
template class Stepper<float, PairNetwork>;
template class Stepper<double, PairNetwork>;

}  // namespace qkv::train
