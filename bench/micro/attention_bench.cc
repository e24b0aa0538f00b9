// Fused attention forward, E = 64: dense, in float and in double, and in the layout of one product for q, k and v.
#include <benchmark/benchmark.h>

#include "qkv/attention/attention.h"
#include "tests/support/sampler.h"

namespace qkv::attention {
namespace {

double Gflop(int64_t heads, int64_t N, int64_t E) { return 4e-9 * static_cast<double>(heads * N * N * E); }

template <typename T>
void AttentionOfHeads(benchmark::State& state) {
  const int64_t heads = state.range(0), N = state.range(1), E = 64;
  Sampler sampler(1);
  const auto q = sampler.Normal<T>({1, heads, N, E}), k = sampler.Normal<T>({1, heads, N, E}),
             v = sampler.Normal<T>({1, heads, N, E});
  Tensor<T> out({1, heads, N, E});
  Arena arena;
  for (auto _ : state) {
    Attention<T>(q, k, v, {}, out, arena);
    arena.Reset();
  }
  state.counters["GFLOP/s"] = benchmark::Counter(Gflop(heads, N, E), benchmark::Counter::kIsIterationInvariantRate);
}

void Fused(benchmark::State& state) {
  const int64_t B = state.range(0) / 12, H = 12, N = state.range(1), E = 64, D = H * E;
  const auto qkv = Sampler(1).Normal<float>({B, N, 3, H, E});
  Tensor<float> out({B, N, H, E});
  const auto part = [&](int64_t which) {
    return View<const float>(qkv.data() + which * D, {B, H, N, E}, {N * 3 * D, E, 3 * D, 1});
  };
  Arena arena;
  for (auto _ : state) {
    Attention<float>(part(0), part(1), part(2), {}, View<float>(out.data(), {B, H, N, E}, {N * D, E, D, 1}), arena);
    arena.Reset();
  }
  state.counters["GFLOP/s"] = benchmark::Counter(Gflop(B * H, N, E), benchmark::Counter::kIsIterationInvariantRate);
}

void Shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({12, 197})->Args({96, 197})->UseRealTime()->Unit(benchmark::kMicrosecond)->ArgNames({"heads", "N"});
}
void LongShapes(benchmark::internal::Benchmark* benchmark) { benchmark->Args({16, 1024})->Args({16, 4096}); }
void Dense(benchmark::State& state) { AttentionOfHeads<float>(state); }
void DenseDouble(benchmark::State& state) { AttentionOfHeads<double>(state); }
BENCHMARK(Dense)->Apply(Shapes)->Apply(LongShapes);
BENCHMARK(DenseDouble)->Apply(Shapes);
BENCHMARK(Fused)->Apply(Shapes);

}  // namespace
}  // namespace qkv::attention
