// Linear layers of ViT-B/16 at batch 1 (197 rows) and 8 (1576), as the model runs them, and those of small models in
// training. Fractions of the peak: run them beside peak_bench.cc's Peak, on one thread (taskset) and with
// --benchmark_enable_random_interleaving=true.
#include <benchmark/benchmark.h>

#include <array>

#include "qkv/simd/gemm.h"
#include "qkv/simd/matmul.h"
#include "tests/support/sampler.h"

namespace qkv::simd {
namespace {

template <typename T>
void GemmLayer(benchmark::State& state, Activation activation, Precision precision = Precision::kFloat32) {
  const int64_t M = state.range(0), N = state.range(1), K = state.range(2);
  Sampler sampler(1);
  const auto x = sampler.Normal<T>({M, K}), w = sampler.Normal<T>({N, K}), bias = sampler.Normal<T>({N});
  // Several copies of the weights take turns, so that they come from memory, as in a model.
  std::vector<PackedMatrix<T>> packed;
  do {
    packed.emplace_back(w.view(), precision);
  } while (packed.front().bytes() * static_cast<int64_t>(packed.size()) < 128'000'000);
  Tensor<T> y({M, N});
  const Epilogue<T> epilogue{.bias = bias.data(), .activation = activation};
  size_t next = 0;
  for (auto _ : state) {
    Gemm<T>(x, packed[next], epilogue, y);
    next = (next + 1) % packed.size();
  }
  state.counters["GFLOP/s"] =
      benchmark::Counter(2e-9 * static_cast<double>(M * N * K), benchmark::Counter::kIsIterationInvariantRate);
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

// The three products of a linear layer whose weights are new at every step.
enum class Pass { kForward, kInputs, kWeights };

template <Pass kPass>
void Training(benchmark::State& state) {
  const int64_t M = state.range(0), N = state.range(1), K = state.range(2);
  Sampler sampler(1);
  auto x = sampler.Normal<float>({M, K}), w = sampler.Normal<float>({N, K}), y = sampler.Normal<float>({M, N});
  const auto bias = sampler.Normal<float>({N});
  for (auto _ : state) {
    if constexpr (kPass == Pass::kForward) MatMul<float>(x, Transposed(w.view()), {.bias = bias.data()}, y);
    if constexpr (kPass == Pass::kInputs) MatMul<float>(y, w, x);
    if constexpr (kPass == Pass::kWeights) MatMul<float>(Transposed(View<const float>(y)), x, w);
  }
  state.counters["GFLOP/s"] =
      benchmark::Counter(2e-9 * static_cast<double>(M * N * K), benchmark::Counter::kIsIterationInvariantRate);
}

// Batches of 128 and 64 images in 65 tokens, and ViT-S/16 at 224 with 8 images: up and down in an MLP, and attention's
// projections together.
void TrainingShapes(benchmark::internal::Benchmark* benchmark) {
  for (const auto& [M, D, hidden] : {std::array<int64_t, 3>{8320, 128, 512}, {4160, 192, 768}, {1576, 384, 1536}}) {
    benchmark->Args({M, hidden, D})->Args({M, D, hidden})->Args({M, 3 * D, D});
  }
  benchmark->UseRealTime()->Unit(benchmark::kMicrosecond)->ArgNames({"M", "N", "K"});
}
BENCHMARK(Training<Pass::kForward>)->Name("TrainingForward")->Apply(TrainingShapes);
BENCHMARK(Training<Pass::kInputs>)->Name("TrainingInputs")->Apply(TrainingShapes);
BENCHMARK(Training<Pass::kWeights>)->Name("TrainingWeights")->Apply(TrainingShapes);

}  // namespace
}  // namespace qkv::simd
