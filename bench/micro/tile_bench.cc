// Low-precision tile kernels against the register peak of their instruction, and against fp32 multiply-adds of the same
// vector length. Kernel and peaks alternate within a millisecond, so that load on the machine slows all of them; the
// best of many turns counts. One thread.
#ifdef __x86_64__
#include <benchmark/benchmark.h>
#include <immintrin.h>

#include <algorithm>
#include <string>

#include "bench/micro/instruction_peaks.h"
#include "qkv/core/tensor.h"
#include "qkv/simd/gemm/tile_kernel.h"
#include "qkv/simd/isa.h"
#include "qkv/simd/rates.h"

namespace qkv::simd {
namespace {

using internal::Seconds;
using internal::TileKernel;

struct Subject {
  const TileKernel* kernel;
  double (*instruction)();
  double (*fma)();
  bool available;
};

// M rows of A by panels of weights of depth 768, as in the driver: slice by slice, all rows while a slice is in the
// cache and the next one is prefetched.
struct Product {
  Product(const TileKernel& k, int64_t rows, int64_t panels) : kernel(k), M(rows), count(panels) {
    const int64_t bytes = 64 / k.chunk;
    a = Tensor<uint8_t>({M, kDepth * bytes});
    slice = kDepth * k.panel * bytes;
    b = Tensor<uint8_t>({count + 1, slice});
    c = Tensor<int32_t>({M, k.panel});
    // Small numbers in both types: 0x0101 is also a normal bfloat16.
    std::fill(a.span().begin(), a.span().end(), uint8_t{1});
    std::fill(b.span().begin(), b.span().end(), uint8_t{1});
  }

  // Multiplies slice `index` of the weights; returns multiply-adds.
  double Run(int64_t index) {
    const int64_t tiles = (M + kernel.rows - 1) / kernel.rows, lines = slice / 64 / tiles;
    const auto* const b_slice = b.data() + index * slice;
    // One tile passes over the weights faster than memory, so prefetches must be early and in order.
    const auto* const next = reinterpret_cast<const char*>(b_slice + (tiles == 1 ? 8192 : slice));
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t begin = t * M / tiles, end = (t + 1) * M / tiles;
      kernel.multiply(static_cast<int>(end - begin), a.data() + begin * (a.size() / M), b_slice, kDepth, true,
                      c.data() + begin * kernel.panel, count > 1 ? next + t * lines * 64 : nullptr, lines);
    }
    return static_cast<double>(M * kDepth * kernel.panel);
  }

  static constexpr int64_t kDepth = 768;
  const TileKernel& kernel;
  int64_t M, count, slice = 0;
  Tensor<uint8_t> a, b;
  Tensor<int32_t> c;
};

constexpr int kTurns = 8;  // per iteration of a benchmark

// The slice of weights stays in the cache.
void Cached(benchmark::State& state, const Subject& subject, int64_t M) {
  if (!subject.available) return state.SkipWithError("this machine has no such instructions");
  Product product(*subject.kernel, M, 1);
  double instruction = 0, fma = 0, kernel = 0;  // best multiply-adds per second
  const auto keep_best = [](double& best, auto&& run) {
    double done = 0;
    const double seconds = Seconds([&] { done = run(); });
    best = std::max(best, done / seconds);
  };
  for (auto _ : state) {
    for (int turn = 0; turn < kTurns; ++turn) {
      keep_best(instruction, subject.instruction);
      keep_best(fma, subject.fma);
      keep_best(kernel, [&] {
        double done = 0;
        while (done < 4e6) done += product.Run(0);
        return done;
      });
    }
  }
  if (subject.kernel->finish) subject.kernel->finish();
  state.counters["of_instruction"] = kernel / instruction;
  state.counters["of_fma"] = kernel / fma;
  state.counters["instruction_of_fma"] = instruction / fma;
}

// The weights come from memory; compared with reading memory.
__attribute__((target("avx2"))) double Read(const uint8_t* from, int64_t bytes) {
  __m256i sum[4] = {};
  for (const uint8_t* const end = from + bytes; from != end; from += 128) {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      sum[i] = _mm256_add_epi32(sum[i], _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + 32 * i)));
    }
  }
  for (__m256i& one : sum) benchmark::DoNotOptimize(one);
  return static_cast<double>(bytes);
}

void Streamed(benchmark::State& state, const Subject& subject, int64_t M) {
  if (!subject.available) return state.SkipWithError("this machine has no such instructions");
  constexpr int64_t kTurn = 32;  // slices
  const int64_t slices = (int64_t{256} << 20) / (Product::kDepth * subject.kernel->panel * 64 / subject.kernel->chunk);
  Product product(*subject.kernel, M, slices / (2 * kTurn) * (2 * kTurn));
  double read = 0, kernel = 0, fma = 0, multiply_adds = 0;  // best bytes or multiply-adds per second
  int64_t index = 0;
  const double bytes = static_cast<double>(kTurn * product.slice);
  for (auto _ : state) {
    for (int turn = 0; turn < kTurns; ++turn, index = (index + 2 * kTurn) % product.count) {
      double done = 0;
      const double seconds = Seconds([&] {
        for (int64_t i = 0; i < kTurn; ++i) done += product.Run(index + i);
      });
      kernel = std::max(kernel, bytes / seconds);
      multiply_adds = std::max(multiply_adds, done / seconds);
      read = std::max(read, bytes / Seconds([&] {
                              Read(product.b.data() + (index + kTurn) * product.slice, kTurn * product.slice);
                            }));
      done = 0;
      const double fma_seconds = Seconds([&] { done = subject.fma(); });
      fma = std::max(fma, done / fma_seconds);
    }
  }
  if (subject.kernel->finish) subject.kernel->finish();
  state.counters["GB/s"] = kernel / 1e9;
  state.counters["of_read"] = kernel / read;
  state.counters["of_fma"] = multiply_adds / fma;
}

const bool registered = [] {
  const auto isas = AvailableIsas();
  const auto has = [&](Isa isa) { return std::find(isas.begin(), isas.end(), isa) != isas.end(); };
  const Subject subjects[] = {
      {&internal::kInt8Avx2, MaddubsFolded, Fma256, has(Isa::kAvx2)},
      {&internal::kInt8AvxVnni, DotBytes256, Fma256, has(Isa::kAvxVnni)},
      {&internal::kInt8Avx512Vnni, DotBytes512, Fma512, has(Isa::kAvx512) && internal::HasAvx512Vnni()},
      {&internal::kBf16Avx512, DotBf16, Fma512, has(Isa::kAvx512) && internal::HasAvx512Bf16()},
      {&internal::kInt8Amx, Tiles<BytesProduct, 16 * 16 * 64>, Fma512, has(Isa::kAmx)},
      {&internal::kBf16Amx, Tiles<Bf16Product, 16 * 16 * 32>, Fma512, has(Isa::kAmx)},
  };
  for (const Subject& subject : subjects) {
    const std::string name = subject.kernel->name;
    for (const int64_t M : {int64_t{1}, int64_t{2}, int64_t{subject.kernel->rows}, int64_t{197}}) {
      benchmark::RegisterBenchmark(("TileCached/" + name + "/M:" + std::to_string(M)).c_str(), Cached, subject, M);
    }
    for (const int64_t M : {1, 4, 8, 197}) {
      benchmark::RegisterBenchmark(("TileStreamed/" + name + "/M:" + std::to_string(M)).c_str(), Streamed, subject, M);
    }
  }
  return true;
}();

}  // namespace
}  // namespace qkv::simd
#endif  // __x86_64__
