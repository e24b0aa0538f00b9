// Norms, softmax and activations on one thread, in values per nanosecond.
#include <benchmark/benchmark.h>

#include "qkv/simd/rows/elementwise.h"
#include "tests/support/sampler.h"

namespace qkv::simd {
namespace {

void Values(benchmark::State& state, int64_t n) {
  state.counters["values/ns"] =
      benchmark::Counter(1e-9 * static_cast<double>(n), benchmark::Counter::kIsIterationInvariantRate);
}

void ActivateRow(benchmark::State& state) {
  const auto x = Sampler(1).Normal<float>({3072});
  Tensor<float> y({3072});
  for (auto _ : state) {
    Activate(static_cast<Activation>(state.range(0)), x.data(), y.data(), 3072);
    benchmark::DoNotOptimize(y.data());
  }
  Values(state, 3072);
}
BENCHMARK(ActivateRow)->DenseRange(1, 6)->ArgName("activation");

void LayerNormRows(benchmark::State& state) {
  const auto x = Sampler(1).Normal<float>({16, 768}), gamma = Sampler(2).Normal<float>({768});
  Tensor<float> y({16, 768});
  for (auto _ : state) {
    NormRows<float>(x.data(), 768, 16, 768, gamma.data(), gamma.data(), 1e-6f, y.data(), 768);
    benchmark::DoNotOptimize(y.data());
  }
  Values(state, 16 * 768);
}
BENCHMARK(LayerNormRows);

void SoftmaxRow(benchmark::State& state) {
  auto x = Sampler(1).Normal<float>({1000});
  for (auto _ : state) {
    Softmax(x.data(), 1000);
    benchmark::DoNotOptimize(x.data());
  }
  Values(state, 1000);
}
BENCHMARK(SoftmaxRow);

}  // namespace
}  // namespace qkv::simd
