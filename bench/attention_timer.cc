// Times attention, forward, backward or both, on request: for each line read, prints the milliseconds of the best of
// some consecutive passes. bench/attention.py runs it and PyTorch alternately.
//
//     attention_timer forward|gradient|training[-bf16] BATCH HEADS KEY_HEADS QUERIES KEYS WIDTH
//     none|causal|mask|windowN|bandN [THREADS]
//
// windowN: a query sees N keys to either side; bandN: the same as a mask.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#include "qkv/attention/attention.h"
#include "qkv/core/parallel.h"
#include "tests/support/sampler.h"

namespace qkv::attention {
namespace {

using Clock = std::chrono::steady_clock;

double Milliseconds(Clock::time_point since) {
  return std::chrono::duration<double, std::milli>(Clock::now() - since).count();
}

int Run(int count, char** words) {
  Require(count >= 9, "attention_timer: see the first lines of its source for the arguments");
  const std::string passes = words[1];
  const bool forward = !passes.starts_with("gradient"), backward = !passes.starts_with("forward");
  const auto number = [&](int i) { return static_cast<int64_t>(std::atoll(words[i])); };
  const int64_t B = number(2), H = number(3), H_kv = number(4), N_q = number(5), N_k = number(6), E = number(7);
  const std::string kind = words[8];
  if (count > 9) SetNumThreads(static_cast<int>(number(9)));

  Sampler sampler(1);
  const auto q = sampler.Normal<float>({B, H, N_q, E}), dout = sampler.Normal<float>({B, H, N_q, E});
  const auto k = sampler.Normal<float>({B, H_kv, N_k, E}), v = sampler.Normal<float>({B, H_kv, N_k, E});
  const int64_t window = kind.starts_with("window") ? std::atoll(kind.c_str() + 6) : -1;
  const int64_t band = kind.starts_with("band") ? std::atoll(kind.c_str() + 4) : -1;
  // Of no size where none is asked for: it grows with the square of the tokens, and attention's memory is measured.
  const bool has_mask = kind == "mask" || band >= 0;
  Tensor<bool> mask(has_mask ? Shape({1, 1, N_q, N_k}) : Shape({0}));
  for (int64_t i = 0; i < mask.size(); ++i) {
    mask[i] = band >= 0 ? std::abs(i / N_k - i % N_k) <= band : sampler.rng().Uniform() < 0.8;
  }
  Options<float> options;
  options.bf16 = passes.ends_with("-bf16");
  if (kind == "causal") options.causal = Causal::kTopLeft;
  if (has_mask) options.mask = mask;
  options.window_left = options.window_right = window;
  Tensor<float> out({B, H, N_q, E}), lse({B, H, N_q}), dq(q.shape()), dk(k.shape()), dv(v.shape());
  const BackwardTensors<float> tensors{q, k, v, out, lse, dout, dq, dk, dv};
  Arena arena;
  const auto pass = [&] {
    if (forward) Attention<float>(q, k, v, options, out, arena, backward ? lse.view() : View<float>());
    if (backward) AttentionBackward(tensors, options, arena);
    arena.Reset();
  };
  Attention<float>(q, k, v, options, out, arena, lse);  // the forward pass that a gradient alone needs
  pass();
  std::puts("ready");
  std::fflush(stdout);
  for (std::string line; std::getline(std::cin, line);) {
    constexpr double kBurst = 30;  // ms
    double best = 1e9;
    for (const auto start = Clock::now(); best == 1e9 || Milliseconds(start) < kBurst;) {
      const auto before = Clock::now();
      pass();
      best = std::min(best, Milliseconds(before));
    }
    std::printf("%.6f\n", best);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace qkv::attention

int main(int count, char** words) {
  try {
    return qkv::attention::Run(count, words);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
