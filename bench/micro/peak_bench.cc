// Peak rates of the machine at this moment, on all threads: multiply-adds on registers, and memory bandwidth. Compare
// other numbers with peaks of the same minute. Dot products in bf16 and int8: dot_peak_bench.cc.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "qkv/core/parallel.h"
#include "qkv/core/tensor.h"
#include "qkv/simd/rates.h"
#include "qkv/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/micro/peak_bench.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "qkv/simd/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// STREAM's triad, a = b + s c, each [n]; non-temporal stores.
void TriadAll(const float* b, const float* c, float* a, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto s = hn::Set(d, 3.0f);
  for (int64_t at = 0; at < n; at += lanes)
    hn::Stream(hn::MulAdd(s, hn::Load(d, c + at), hn::Load(d, b + at)), d, a + at);
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::simd {
namespace {

HWY_EXPORT(TriadAll);

void Peak(benchmark::State& state) {
  double sum = 0;
  for (auto _ : state) sum += internal::FlopsNow(2'000'000);
  state.counters["GFLOP/s"] = benchmark::Counter(sum / 1e9, benchmark::Counter::kAvgIterations);
}
BENCHMARK(Peak)->UseRealTime()->Unit(benchmark::kMillisecond);

// Three arrays of 256 MiB: larger than the cache of any current processor.
constexpr int64_t kStream = int64_t{1} << 26, kPiece = int64_t{1} << 16;

void Bytes(benchmark::State& state, int64_t arrays) {
  state.counters["GB/s"] = benchmark::Counter(1e-9 * static_cast<double>(arrays * kStream * int64_t{sizeof(float)}),
                                              benchmark::Counter::kIsIterationInvariantRate);
}

Tensor<float> Touched() {
  Tensor<float> x({kStream});
  std::fill(x.span().begin(), x.span().end(), 1.0f);
  return x;
}

void MemoryRead(benchmark::State& state) {
  const Tensor<float> x = Touched();
  for (auto _ : state) {
    ParallelTasks(kStream / kPiece, [&](int64_t task, int) {
      benchmark::DoNotOptimize(internal::SumElements(x.data() + task * kPiece, kPiece));
    });
  }
  Bytes(state, 1);
}
BENCHMARK(MemoryRead)->UseRealTime()->Unit(benchmark::kMillisecond);

void MemoryTriad(benchmark::State& state) {
  const Tensor<float> b = Touched(), c = Touched();
  Tensor<float> a = Touched();
  for (auto _ : state) {
    ParallelTasks(kStream / kPiece, [&](int64_t task, int) {
      const int64_t at = task * kPiece;
      QKV_DISPATCH(TriadAll)(b.data() + at, c.data() + at, a.data() + at, kPiece);
    });
    benchmark::ClobberMemory();
  }
  Bytes(state, 3);
}
BENCHMARK(MemoryTriad)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace qkv::simd
#endif  // HWY_ONCE
