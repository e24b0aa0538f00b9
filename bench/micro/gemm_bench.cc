// Linear layers of ViT-B/16 at batch 1 (197 rows) and 8 (1576), as the model runs them, and those of small models in
// training. For fractions of the peak, run them beside peak_bench.cc's Peak, on one thread (taskset) and with
// --benchmark_enable_random_interleaving=true.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <vector>

#include "qkv/core/parallel.h"
#include "qkv/simd/gemm/gemm.h"
#include "qkv/simd/gemm/matmul.h"
#include "qkv/simd/rates.h"
#include "tests/support/sampler.h"

namespace qkv::simd {
namespace {

template <typename T>
void GemmLayer(benchmark::State& state, Activation activation, Precision precision = Precision::kFloat32) {
  const int64_t M = state.range(0), N = state.range(1), K = state.range(2);
  Sampler sampler(1);
  const auto x = sampler.Normal<T>({M, K}), w = sampler.Normal<T>({N, K}), bias = sampler.Normal<T>({N});
  // Several copies of the weights alternate, so that they come from memory, as in a model.
  std::vector<PackedMatrix<T>> packed;
  do {
    packed.emplace_back(w.view(), precision);
  } while (packed.front().bytes() * static_cast<int64_t>(packed.size()) < 128'000'000);
  for (size_t i = 0; i < packed.size(); ++i) packed[i].set_next(packed[(i + 1) % packed.size()]);
  Tensor<T> y({M, N});
  const Epilogue<T> epilogue{.bias = bias.data(), .activation = activation};
  size_t next = 0;
  const auto operations = static_cast<double>(2 * M * N * K);
  const bool in_float = sizeof(T) == 4 && precision == Precision::kFloat32;
  // Fraction of the peak measured right after each product, since the clock varies over minutes and with the load.
  // Omitted for few rows, which are limited by memory.
  const bool of_moment = in_float && M >= 197;
  std::vector<double> of_peak;
  // The layout of one image's rows in float, after attention and inside the MLP.
  const bool in_chunks = in_float && N <= K && M == 197;
  const View<const T> rows =
      in_chunks ? View<const T>(x.data(), {M, K / kRowChunk, kRowChunk}, {kRowChunk, M * kRowChunk, 1}) : x.view();
  for (auto _ : state) {
    const double seconds = internal::Seconds([&] { Gemm<T>(rows, packed[next], epilogue, y); });
    next = (next + 1) % packed.size();
    if (!of_moment) continue;
    state.PauseTiming();
    of_peak.push_back(operations / seconds / internal::FlopsNow(300'000));
    state.ResumeTiming();
  }
  state.counters["GFLOP/s"] = benchmark::Counter(1e-9 * operations, benchmark::Counter::kIsIterationInvariantRate);
  if (!of_moment) return;
  const auto middle = of_peak.begin() + (of_peak.end() - of_peak.begin() - 1) / 2;
  std::nth_element(of_peak.begin(), middle, of_peak.end());
  state.counters["of_peak_then"] = *middle;
}

void Shapes(benchmark::internal::Benchmark* benchmark) {
  for (const int64_t M : {1, 8, 197, 1576}) {
    benchmark->Args({M, 2304, 768})->Args({M, 768, 768})->Args({M, 3072, 768})->Args({M, 768, 3072});
  }
  benchmark->UseRealTime()->Unit(benchmark::kMicrosecond)->ArgNames({"M", "N", "K"});
}
void Layer(benchmark::State& state) { GemmLayer<float>(state, Activation::kNone); }
void LayerBf16(benchmark::State& state) { GemmLayer<float>(state, Activation::kNone, Precision::kBfloat16); }
void LayerInt8(benchmark::State& state) { GemmLayer<float>(state, Activation::kNone, Precision::kInt8); }
void LayerGelu(benchmark::State& state) { GemmLayer<float>(state, Activation::kGelu); }
void LayerDouble(benchmark::State& state) { GemmLayer<double>(state, Activation::kNone); }

BENCHMARK(Layer)->Apply(Shapes);
BENCHMARK(LayerBf16)->Apply(Shapes);
BENCHMARK(LayerInt8)->Apply(Shapes);
BENCHMARK(LayerGelu)->Args({197, 3072, 768})->Args({1576, 3072, 768})->UseRealTime()->Unit(benchmark::kMicrosecond);
BENCHMARK(LayerDouble)->Args({197, 768, 768})->UseRealTime()->Unit(benchmark::kMicrosecond);

// Layers of ViT-Ti.
BENCHMARK(Layer)
    ->Name("LayerTiny")
    ->ArgsProduct({{197}, {576, 192, 768}, {192}})
    ->Args({197, 192, 768})
    ->ArgNames({"M", "N", "K"})
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

// The three products of a linear layer whose weights change at every step.
enum class Pass { kForward, kInputs, kWeights };

void Training(benchmark::State& state, Pass pass, Precision precision) {
  const int64_t M = state.range(0), N = state.range(1), K = state.range(2);
  struct Layer {
    Tensor<float> x, w, y;
  };
  // Several layers alternate, so that weights and activations come from L3, as in a training step.
  std::vector<Layer> layers;
  Sampler sampler(1);
  const auto bias = sampler.Normal<float>({N});
  int64_t size = 0;
  do {
    layers.push_back({sampler.Normal<float>({M, K}), sampler.Normal<float>({N, K}), sampler.Normal<float>({M, N})});
    size += M * K + N * K + M * N;
  } while (size < 4'000'000);
  const int threads = NumThreads();
  SetNumThreads(static_cast<int>(state.range(3)));
  size_t next = 0;
  for (auto _ : state) {
    Layer& at = layers[next++ % layers.size()];
    const View<const float> x = at.x, w = at.w, y = at.y;
    if (pass == Pass::kForward) MatMul<float>(x, Transposed(w), {.bias = bias.data()}, at.y, precision);
    if (pass == Pass::kInputs) MatMul<float>(y, w, at.x, false, precision);
    if (pass == Pass::kWeights) MatMul<float>(Transposed(y), x, at.w, false, precision);
  }
  SetNumThreads(threads);
  state.counters["GFLOP/s"] =
      benchmark::Counter(2e-9 * static_cast<double>(M * N * K), benchmark::Counter::kIsIterationInvariantRate);
}

// Chunks of images, 4 to 16 of 65 tokens and 1 to 8 of 197: both layers of an MLP, attention's joint projection, and
// its output projection.
void TrainingShapes(benchmark::internal::Benchmark* benchmark) {
  for (const auto& [M, D] :
       {std::array<int64_t, 2>{260, 128}, {1040, 128}, {260, 192}, {520, 192}, {197, 384}, {1576, 384}}) {
    for (const int64_t threads : {1, 2}) {
      benchmark->Args({M, 4 * D, D, threads})->Args({M, D, 4 * D, threads});
      benchmark->Args({M, 3 * D, D, threads})->Args({M, D, D, threads});
    }
  }
  benchmark->UseRealTime()->Unit(benchmark::kMicrosecond)->ArgNames({"M", "N", "K", "threads"});
}
BENCHMARK_CAPTURE(Training, Forward, Pass::kForward, Precision::kFloat32)->Apply(TrainingShapes);
BENCHMARK_CAPTURE(Training, Inputs, Pass::kInputs, Precision::kFloat32)->Apply(TrainingShapes);
BENCHMARK_CAPTURE(Training, Weights, Pass::kWeights, Precision::kFloat32)->Apply(TrainingShapes);
BENCHMARK_CAPTURE(Training, ForwardBf16, Pass::kForward, Precision::kBfloat16)->Apply(TrainingShapes);
BENCHMARK_CAPTURE(Training, InputsBf16, Pass::kInputs, Precision::kBfloat16)->Apply(TrainingShapes);
BENCHMARK_CAPTURE(Training, WeightsBf16, Pass::kWeights, Precision::kBfloat16)->Apply(TrainingShapes);

}  // namespace
}  // namespace qkv::simd
