// The most that this processor's dot-product instructions do, on registers alone and on all threads, in billions of
// operations a second (a multiplication and an addition count as two). Only the instructions that it has are listed.
#ifdef __x86_64__
#include <benchmark/benchmark.h>
#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "qkv/core/parallel.h"
#include "qkv/simd/isa.h"

namespace qkv::simd {
namespace {

// Each returns the operations it did. Chains of accumulators as in peak_bench.cc; the accumulators leave through
// `sink`, or the compiler would drop them.

__attribute__((target("avx512f,avx512bf16"))) double DotBf16(int64_t rounds, void* sink) {
  __m512 acc[12];
#pragma GCC unroll 12
  for (int i = 0; i < 12; ++i) acc[i] = _mm512_set1_ps(static_cast<float>(i));
  const auto a = reinterpret_cast<__m512bh>(_mm512_set1_epi32(0x3f003f00));  // 0.5, 0.5
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) acc[i] = _mm512_dpbf16_ps(acc[i], a, a);
  }
#pragma GCC unroll 12
  for (int i = 1; i < 12; ++i) acc[0] = _mm512_add_ps(acc[0], acc[i]);
  _mm512_storeu_ps(sink, acc[0]);
  return 2.0 * 12 * 32 * static_cast<double>(rounds);
}

__attribute__((target("avx512f,avx512vnni"))) double DotInt8(int64_t rounds, void* sink) {
  __m512i acc[12];
#pragma GCC unroll 12
  for (int i = 0; i < 12; ++i) acc[i] = _mm512_set1_epi32(i);
  const __m512i a = _mm512_set1_epi8(1);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) acc[i] = _mm512_dpbusd_epi32(acc[i], a, a);
  }
#pragma GCC unroll 12
  for (int i = 1; i < 12; ++i) acc[0] = _mm512_add_epi32(acc[0], acc[i]);
  _mm512_storeu_si512(sink, acc[0]);
  return 2.0 * 12 * 64 * static_cast<double>(rounds);
}

__attribute__((target("avx2,avxvnni"))) double DotInt8Avx2(int64_t rounds, void* sink) {
  __m256i acc[12];
#pragma GCC unroll 12
  for (int i = 0; i < 12; ++i) acc[i] = _mm256_set1_epi32(i);
  const __m256i a = _mm256_set1_epi8(1);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < 12; ++i) acc[i] = _mm256_dpbusd_avx_epi32(acc[i], a, a);
  }
#pragma GCC unroll 12
  for (int i = 1; i < 12; ++i) acc[0] = _mm256_add_epi32(acc[0], acc[i]);
  _mm256_storeu_si256(static_cast<__m256i*>(sink), acc[0]);
  return 2.0 * 12 * 32 * static_cast<double>(rounds);
}

// Without VNNI: two products of 7-bit values fit 16 bits, so one widening serves two multiplications.
__attribute__((target("avx2"))) double MultiplyInt8(int64_t rounds, void* sink) {
  __m256i acc[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) acc[i] = _mm256_set1_epi32(i);
  const __m256i ones = _mm256_set1_epi16(1);
  const __m256i a = _mm256_set1_epi8(1), b = _mm256_set1_epi8(2);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      // The sums as operands: with constants, the compiler would multiply once.
      const __m256i sum = _mm256_add_epi16(_mm256_maddubs_epi16(a, acc[i]), _mm256_maddubs_epi16(b, acc[i]));
      acc[i] = _mm256_add_epi32(acc[i], _mm256_madd_epi16(sum, ones));
    }
  }
#pragma GCC unroll 8
  for (int i = 1; i < 8; ++i) acc[0] = _mm256_add_epi32(acc[0], acc[i]);
  _mm256_storeu_si256(static_cast<__m256i*>(sink), acc[0]);
  return 2.0 * 8 * 64 * static_cast<double>(rounds);
}

struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};

// Eight tiles of 16 rows of 64 bytes. Loading the configuration makes them zero, which multiply as fast as anything.
TileConfig FullTiles() {
  TileConfig config;
  for (int i = 0; i < 8; ++i) config.row_bytes[i] = 64, config.rows[i] = 16;
  return config;
}

// Four accumulators as a product's 2×2 tiles have them; the instruction's latency asks for them.
__attribute__((target("amx-tile,amx-bf16"))) double TileBf16(int64_t rounds, void*) {
  const TileConfig config = FullTiles();
  _tile_loadconfig(&config);
  for (int64_t r = 0; r < rounds; ++r) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  return 4.0 * 2 * 16 * 16 * 32 * static_cast<double>(rounds);
}

__attribute__((target("amx-tile,amx-int8"))) double TileInt8(int64_t rounds, void*) {
  const TileConfig config = FullTiles();
  _tile_loadconfig(&config);
  for (int64_t r = 0; r < rounds; ++r) {
    _tile_dpbusd(0, 4, 6);
    _tile_dpbusd(1, 4, 7);
    _tile_dpbusd(2, 5, 6);
    _tile_dpbusd(3, 5, 7);
  }
  _tile_release();
  return 4.0 * 2 * 16 * 16 * 64 * static_cast<double>(rounds);
}

using Kernel = double (*)(int64_t rounds, void* sink);

void DotPeak(benchmark::State& state, Kernel kernel) {
  double operations = 0;
  for (auto _ : state) {
    double done[256] = {};
    ParallelTasks(NumThreads(), [&](int64_t task, int) {
      alignas(64) uint8_t sink[64];
      done[task % 256] = kernel(1'000'000, sink);
      benchmark::DoNotOptimize(sink);
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
  add("PeakBf16/AMX", has(Isa::kAmx), TileBf16);
  add("PeakInt8/AVX2", has(Isa::kAvx2), MultiplyInt8);
  add("PeakInt8/AVX_VNNI", has(Isa::kAvxVnni), DotInt8Avx2);
  add("PeakInt8/AVX512_VNNI", internal::HasAvx512Vnni(), DotInt8);
  add("PeakInt8/AMX", has(Isa::kAmx), TileInt8);
  return true;
}();

}  // namespace
}  // namespace qkv::simd
#endif  // __x86_64__
