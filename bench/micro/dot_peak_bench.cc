// Peak rate of this processor's dot-product instructions, on registers and all threads, in billions of operations per
// second (a multiplication and an addition count as two). Only available instructions are listed.
#ifdef __x86_64__
#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include "bench/micro/instruction_peaks.h"
#include "qkv/core/parallel.h"
#include "qkv/simd/isa.h"

namespace qkv::simd {
namespace {

constexpr int kCalls = 250;  // per task of a benchmark: some milliseconds

using Kernel = double (*)();  // returns multiply-adds

void DotPeak(benchmark::State& state, Kernel kernel) {
  double operations = 0;
  for (auto _ : state) {
    double done[256] = {};
    ParallelTasks(NumThreads(), [&](int64_t task, int) {
      for (int i = 0; i < kCalls; ++i) done[task % 256] += 2 * kernel();
      internal::ReleaseAmx();
    });
    operations += done[0] * NumThreads();
  }
  state.counters["GFLOP/s"] = benchmark::Counter(operations / 1e9, benchmark::Counter::kIsRate);
}

const bool kRegistered = [] {
  const auto add = [](const char* name, bool available, Kernel kernel) {
    if (available) {
      benchmark::RegisterBenchmark(name, DotPeak, kernel)->UseRealTime()->Unit(benchmark::kMillisecond);
    }
  };
  const std::vector<Isa> isas = AvailableIsas();
  const auto has = [&](Isa isa) { return std::find(isas.begin(), isas.end(), isa) != isas.end(); };
  add("PeakBf16/AVX512_BF16", internal::HasAvx512Bf16(), DotBf16);
  add("PeakBf16/AMX", has(Isa::kAmx), Tiles<Bf16Product, 16 * 16 * 32>);
  add("PeakInt8/AVX2", has(Isa::kAvx2), MaddubsFolded);
  add("PeakInt8/AVX_VNNI", has(Isa::kAvxVnni), DotBytes256);
  add("PeakInt8/AVX512_VNNI", internal::HasAvx512Vnni(), DotBytes512);
  add("PeakInt8/AMX", has(Isa::kAmx), Tiles<BytesProduct, 16 * 16 * 64>);
  return true;
}();

}  // namespace
}  // namespace qkv::simd
#endif  // __x86_64__
