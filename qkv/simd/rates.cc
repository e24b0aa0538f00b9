#include "qkv/simd/rates.h"

#include <algorithm>
#include <vector>

#include "qkv/core/parallel.h"
#include "qkv/core/tensor.h"
#include "qkv/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "qkv/simd/rates.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"
#include "qkv/simd/dispatch.h"

HWY_BEFORE_NAMESPACE();
namespace qkv::simd {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Enough chains to keep two units with a latency of up to six cycles busy.
constexpr int kChains = 12;

// Returns the number of operations; `sink` keeps the compiler from removing them.
double MultiplyAdds(int64_t rounds, float* sink) {
  const hn::ScalableTag<float> d;
  hn::Vec<decltype(d)> acc[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) acc[i] = hn::Set(d, static_cast<float>(i));
  const auto a = hn::Set(d, 0.5f), b = hn::Set(d, 1.0f);
  for (int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) acc[i] = hn::MulAdd(acc[i], a, b);
  }
  auto sum = acc[0];
#pragma GCC unroll 12
  for (int i = 1; i < kChains; ++i) sum = hn::Add(sum, acc[i]);
  *sink = hn::GetLane(hn::SumOfLanes(d, sum));
  return 2.0 * kChains * static_cast<double>(hn::Lanes(d)) * static_cast<double>(rounds);
}

// Σ x [n], n a multiple of 8 vectors. Four streams: a processor fetches one much more slowly (gemm/row_kernel.h).
float SumAll(const float* x, int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t quarter = n / 4;
  hn::Vec<decltype(d)> sum[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) sum[i] = hn::Zero(d);
  for (int64_t at = 0; at < quarter; at += 2 * lanes) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) sum[i] = hn::Add(sum[i], hn::Load(d, x + i / 2 * quarter + at + i % 2 * lanes));
  }
#pragma GCC unroll 8
  for (int i = 1; i < 8; ++i) sum[0] = hn::Add(sum[0], sum[i]);
  return hn::GetLane(hn::SumOfLanes(d, sum[0]));
}

}  // namespace HWY_NAMESPACE
}  // namespace qkv::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace qkv::simd {

HWY_EXPORT(MultiplyAdds);
HWY_EXPORT(SumAll);

namespace {

constexpr int64_t kPieces = 32;  // per thread
constexpr int kTries = 8;
constexpr int64_t kRounds = 200'000;                                      // 1 to 2 ms
constexpr int64_t kFloats = int64_t{1} << 25, kPiece = int64_t{1} << 16;  // 128 MiB: larger than most caches

}  // namespace

namespace internal {

float SumElements(const float* x, int64_t n) { return QKV_DISPATCH(SumAll)(x, n); }

double FlopsNow(int64_t rounds) {
  std::vector<float> sinks(static_cast<size_t>(kPieces * NumThreads()));
  double operations = 0;  // per piece
  const double seconds = Seconds([&] {
    ParallelTasks(static_cast<int64_t>(sinks.size()), [&](int64_t piece, int) {
      const double done = QKV_DISPATCH(MultiplyAdds)(rounds / kPieces, &sinks[static_cast<size_t>(piece)]);
      if (piece == 0) operations = done;
    });
  });
  return operations * static_cast<double>(sinks.size()) / seconds;
}

}  // namespace internal

Rates MeasureRates() {
  Rates rates;
  for (int i = 0; i < kTries; ++i) rates.flops = std::max(rates.flops, internal::FlopsNow(kRounds));
  Tensor<float> memory({kFloats});
  std::vector<float> sums(kFloats / kPiece);
  for (int i = 0; i < kTries; ++i) {
    const double seconds = internal::Seconds([&] {
      ParallelTasks(kFloats / kPiece, [&](int64_t t, int) {
        sums[static_cast<size_t>(t)] = internal::SumElements(memory.data() + t * kPiece, kPiece);
      });
    });
    rates.bytes = std::max(rates.bytes, static_cast<double>(kFloats * int64_t{sizeof(float)}) / seconds);
  }
  return rates;
}

}  // namespace qkv::simd
#endif  // HWY_ONCE
