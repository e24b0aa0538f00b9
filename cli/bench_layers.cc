// qkv bench --layer and --attention: the two kinds of work that a model is made of, as fractions of the machine.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/bench.h"
#include "qkv/attention/attention.h"
#include "qkv/core/parallel.h"
#include "qkv/core/rng.h"
#include "qkv/io/json.h"
#include "qkv/simd/isa.h"
#include "qkv/simd/rates.h"

namespace qkv::cli {
namespace {

Tensor<float> RandomTensor(const Shape& shape, double stddev) {
  auto tensor = Tensor<float>::Uninitialised(shape);
  Rng rng(1);
  for (float& x : tensor.span()) x = static_cast<float>(stddev * rng.Normal());
  return tensor;
}

// Weights from memory, as in a model whose blocks take turns: copies enough to push each other out of the caches.
constexpr int64_t kWeightBytes = int64_t{128} << 20;

// One linear layer of a block with its epilogue, in one precision.
class TimedLayer {
 public:
  TimedLayer(int64_t M, int64_t N, int64_t K, simd::Precision precision, simd::Activation activation)
      : x_(RandomTensor({M, K}, 1)), bias_(RandomTensor({N}, 1)), y_({M, N}), activation_(activation) {
    const Tensor<float> w = RandomTensor({N, K}, 1 / std::sqrt(static_cast<double>(K)));
    do {
      copies_.emplace_back(w.view(), precision);
    } while (static_cast<int64_t>(copies_.size()) * copies_.back().bytes() < kWeightBytes);
  }
  void Run() {
    simd::Gemm<float>(x_, copies_[next_], {.bias = bias_.data(), .activation = activation_}, y_);
    next_ = (next_ + 1) % copies_.size();
  }
  int64_t weight_bytes() const { return copies_.front().bytes(); }

 private:
  Tensor<float> x_, bias_, y_;
  simd::Activation activation_;
  std::vector<simd::PackedMatrix<float>> copies_;
  size_t next_ = 0;
};

struct LayerShape {
  const char* name;
  int64_t outputs, inputs;
  simd::Activation activation = simd::Activation::kNone;
};

}  // namespace

int BenchLayers(const BenchOptions& options, const std::vector<simd::Precision>& precisions) {
  const model::VitConfig c = OpenCheckpoint(options.model).description.config;
  const int64_t M = options.batch * c.tokens(), joined = c.heads * c.head_width;
  const LayerShape shapes[] = {{"attn.query", joined, c.width},
                               {"attn.key_value", 2 * joined, c.width},
                               {"attn.proj", c.width, joined},
                               {"mlp.fc1", (c.gate == simd::Gate::kNone ? 1 : 2) * c.mlp_width, c.width, c.activation},
                               {"mlp.fc2", c.width, c.mlp_width}};
  const simd::Rates rates = simd::MeasureRates();
  if (!options.json) {
    fmt::print("{}, {} rows, {} threads, {} kernels; peak {:.0f} GFLOP/s in fp32, memory {:.1f} GB/s\n\n",
               c.architecture, M, NumThreads(), simd::Name(simd::ActiveIsa()), rates.flops / 1e9, rates.bytes / 1e9);
    fmt::print("{:<15} {:>5} {:>5}  dtype {:>9} {:>9} {:>9} {:>8} {:>10}\n", "layer", "N", "K", "best ms", "median",
               "GFLOP/s", "of peak", "of memory");
  }
  for (const LayerShape& shape : shapes) {
    std::vector<TimedLayer> layers;
    for (const simd::Precision precision : precisions) {
      layers.emplace_back(M, shape.outputs, shape.inputs, precision, shape.activation);
    }
    const double seconds = options.seconds / static_cast<double>(std::size(shapes));
    const std::vector<Times> times = Interleave(layers.size(), seconds, [&](size_t i) { layers[i].Run(); });
    for (size_t i = 0; i < layers.size(); ++i) {
      const double best = times[i].best() / 1e3, median = times[i].median() / 1e3;
      const double flops =
          2.0 * static_cast<double>(M) * static_cast<double>(shape.outputs) * static_cast<double>(shape.inputs) / best;
      const double bytes = static_cast<double>(layers[i].weight_bytes()) / best;
      if (options.json) {
        fmt::print("{}\n", io::Json({{"layer", shape.name},
                                     {"rows", M},
                                     {"outputs", shape.outputs},
                                     {"inputs", shape.inputs},
                                     {"dtype", NameOf(precisions[i])},
                                     {"best_ms", 1e3 * best},
                                     {"median_ms", 1e3 * median},
                                     {"gflops", flops / 1e9},
                                     {"of_peak", flops / rates.flops},
                                     {"of_memory", bytes / rates.bytes}})
                               .dump());
      } else {
        fmt::print("{:<15} {:>5} {:>5}  {:<5} {:9.4f} {:9.4f} {:9.1f} {:8.2f} {:10.2f}\n", shape.name, shape.outputs,
                   shape.inputs, NameOf(precisions[i]), 1e3 * best, 1e3 * median, flops / 1e9, flops / rates.flops,
                   bytes / rates.bytes);
      }
    }
  }
  if (!options.json) {
    fmt::print("\nof peak: of the multiply-adds in fp32; of memory: weights alone, read once, of the bandwidth.\n");
  }
  return 0;
}

int BenchAttention(const BenchOptions& options) {
  const model::VitConfig c = OpenCheckpoint(options.model).description.config;
  const simd::Rates rates = simd::MeasureRates();
  if (!options.json) {
    fmt::print("{} heads of {}, batch {}, {} threads, {} kernels; peak {:.0f} GFLOP/s in fp32\n\n", c.heads,
               c.head_width, options.batch, NumThreads(), simd::Name(simd::ActiveIsa()), rates.flops / 1e9);
    fmt::print("{:>6} {:<9} {:>9} {:>9} {:>9} {:>8}\n", "N", "", "best ms", "median", "GFLOP/s", "of peak");
  }
  const int64_t sizes[] = {c.tokens(), 1024, 4096};
  for (const int64_t N : sizes) {
    const Shape shape{options.batch, c.heads, N, c.head_width};
    const Tensor<float> q = RandomTensor(shape, 1), k = RandomTensor(shape, 1), v = RandomTensor(shape, 1),
                        dout = RandomTensor(shape, 1);
    Tensor<float> out(shape), lse({options.batch, c.heads, N}), dq(shape), dk(shape), dv(shape);
    Arena arena;
    const auto forward = [&] {
      attention::Attention<float>(q, k, v, {}, out, arena, lse);
      arena.Reset();
    };
    const auto backward = [&] {
      attention::AttentionBackward<float>({q, k, v, out, lse, dout, dq, dk, dv, {}}, {}, arena);
      arena.Reset();
    };
    forward();
    const std::vector<Times> times = Interleave(2, options.seconds / static_cast<double>(std::size(sizes)),
                                                [&](size_t i) { i == 0 ? forward() : backward(); });
    for (size_t i = 0; i < 2; ++i) {
      // Products: 2 of N·N·E forward, 5 in the gradient.
      const double flops = (i == 0 ? 2 : 5) * 2.0 * static_cast<double>(q.size()) * static_cast<double>(N);
      const double rate = flops / times[i].best() * 1e3;
      const char* what = i == 0 ? "forward" : "gradient";
      if (options.json) {
        fmt::print("{}\n", io::Json({{"tokens", N},
                                     {"heads", c.heads},
                                     {"head_width", c.head_width},
                                     {"batch", options.batch},
                                     {"what", what},
                                     {"best_ms", times[i].best()},
                                     {"median_ms", times[i].median()},
                                     {"gflops", rate / 1e9},
                                     {"of_peak", rate / rates.flops}})
                               .dump());
      } else {
        fmt::print("{:>6} {:<9} {:9.3f} {:9.3f} {:9.1f} {:8.2f}\n", N, what, times[i].best(), times[i].median(),
                   rate / 1e9, rate / rates.flops);
      }
    }
  }
  return 0;
}

}  // namespace qkv::cli
