// What the machine can do at most, now: multiply-adds on registers alone, on all threads. Read every other number as a
// fraction of it, from the same minute.
#include <benchmark/benchmark.h>

#include "qkv/core/parallel.h"
#include "qkv/simd/isa.h"
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

// Twelve chains: two units of a latency of up to six cycles are kept busy. Returns operations done.
double MultiplyAdds(int64_t rounds, float* sink) {
  const hn::ScalableTag<float> d;
  hn::Vec<decltype(d)> acc[12];
#pragma GCC unroll 12
  for (int i = 0; i < 12; ++i) acc[i] = hn::Set(d, static_cast<float>(i));
  const auto a = hn::Set(d, 0.5f), b = hn::Set(d, 1.0f);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) acc[i] = hn::MulAdd(acc[i], a, b);
  }
  auto sum = acc[0];
#pragma GCC unroll 12
  for (int i = 1; i < 12; ++i) sum = hn::Add(sum, acc[i]);
  *sink = hn::GetLane(hn::SumOfLanes(d, sum));
  return 2.0 * 12 * static_cast<double>(hn::Lanes(d)) * static_cast<double>(rounds);
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::simd {
namespace {

HWY_EXPORT(MultiplyAdds);

void Peak(benchmark::State& state) {
  double operations = 0;
  const int threads = NumThreads();
  for (auto _ : state) {
    double done[256] = {};
    ParallelTasks(threads, [&](int64_t task, int) {
      float sink;
      done[task % 256] = QKV_DISPATCH(MultiplyAdds)(2'000'000, &sink);
      benchmark::DoNotOptimize(sink);
    });
    operations += done[0] * threads;
  }
  state.counters["GFLOP/s"] = benchmark::Counter(operations / 1e9, benchmark::Counter::kIsRate);
}
BENCHMARK(Peak)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace qkv::simd
#endif  // HWY_ONCE
