// qkv bench --layer and --attention: linear layers and attention, as fractions of the machine's peak rates.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "cli/bench.h"
#include "cli/output.h"
#include "qkv/app/open/open.h"
#include "qkv/attention/attention.h"
#include "qkv/core/memory.h"
#include "qkv/core/rng.h"

namespace qkv::cli {
namespace {

Tensor<float> RandomTensor(const Shape& shape, double stddev) {
  auto tensor = Tensor<float>::Uninitialised(shape);
  Rng rng(1);
  for (float& x : tensor.span()) x = static_cast<float>(stddev * rng.Normal());
  return tensor;
}

// Weights come from memory, as in a model with many blocks: enough copies to evict each other from the caches.
constexpr int64_t kWeightBytes = int64_t{128} << 20;

const model::VitConfig& ConfigToMeasure(const app::AnyModel& opened) {
  app::RequireProportion(opened.images(), opened.entry());
  return opened.facts().config;
}

struct LayerShape {
  const char* name;
  int64_t outputs, inputs;
  bool chunks = false;  // float reads its rows in chunks
  simd::Activation activation = simd::Activation::kNone;
};

// One linear layer of a block with its epilogue, in one precision.
class TimedLayer {
 public:
  TimedLayer(int64_t M, const LayerShape& shape, simd::Precision precision)
      : x_(RandomTensor({M, shape.inputs}, 1)),
        bias_(RandomTensor({shape.outputs}, 1)),
        y_({M, shape.outputs}),
        activation_(shape.activation),
        chunks_(shape.chunks && precision == simd::Precision::kFloat32 && shape.inputs % simd::kRowChunk == 0) {
    const Tensor<float> w =
        RandomTensor({shape.outputs, shape.inputs}, 1 / std::sqrt(static_cast<double>(shape.inputs)));
    do {
      copies_.emplace_back(w.view(), precision);
    } while (static_cast<int64_t>(copies_.size()) * copies_.back().bytes() < kWeightBytes);
    for (size_t i = 0; i < copies_.size(); ++i) copies_[i].set_next(copies_[(i + 1) % copies_.size()]);
  }
  void Run() {
    simd::Gemm<float>(Rows(), copies_[next_], {.bias = bias_.data(), .activation = activation_}, y_);
    next_ = (next_ + 1) % copies_.size();
  }
  int64_t weight_bytes() const { return copies_.front().bytes(); }

 private:
  View<const float> Rows() const {
    const int64_t M = x_.dim(0), K = x_.dim(1), E = simd::kRowChunk;
    return chunks_ ? View<const float>(x_.data(), {M, K / E, E}, {E, M * E, 1}) : x_.view();
  }

  Tensor<float> x_, bias_, y_;
  simd::Activation activation_;
  bool chunks_;
  std::vector<simd::PackedMatrix<float>> copies_;
  size_t next_ = 0;
};

}  // namespace

int BenchLayers(const BenchOptions& options, const app::AnyModel& opened,
                const std::vector<simd::Precision>& precisions) {
  const model::VitConfig c = ConfigToMeasure(opened);
  const int64_t M = options.batch * c.tokens(), joined = c.block.attention.joined_width();
  const double widest =
      static_cast<double>(std::max({4 * joined, joined + c.block.width, 3 * c.block.mlp.width + c.block.width}));
  RequireMemory(sizeof(float) * static_cast<double>(precisions.size()) * static_cast<double>(M) * widest,
                fmt::format("bench: rows of {} tokens", M));
  const LayerShape shapes[] = {{"attn.qkv", 3 * joined, c.block.width},
                               {"attn.proj", c.block.width, joined, c.block.attention.head_width == simd::kRowChunk},
                               {"mlp.fc1", (c.block.mlp.gate == simd::Gate::kNone ? 1 : 2) * c.block.mlp.width,
                                c.block.width, false, c.block.mlp.activation},
                               {"mlp.fc2", c.block.width, c.block.mlp.width, true}};
  simd::Rates rates = simd::MeasureRates();
  if (!options.json) {
    Print("{}, {} rows, {}\n\n", ModelTitle(options, c), M, DescribeMachine(rates));
    Print("{:<15} {:>7} {:>6}  {:<5} {:>9} {:>9} {:>9} {:>8} {:>10}\n", "layer", "outputs", "inputs", "dtype",
          "best ms", "median ms", "GFLOP/s", "of peak", "of memory");
  }
  for (const LayerShape& shape : shapes) {
    std::vector<TimedLayer> layers;
    for (const simd::Precision precision : precisions) {
      layers.emplace_back(M, shape, precision);
    }
    const double seconds = options.seconds / static_cast<double>(std::size(shapes));
    const std::vector<Times> times = Interleave(layers.size(), seconds, [&](size_t i) { layers[i].Run(); });
    rates = Greatest(rates, simd::MeasureRates());
    for (size_t i = 0; i < layers.size(); ++i) {
      const double seconds_best = times[i].best() / 1e3;
      const double flops = 2.0 * static_cast<double>(M * shape.outputs * shape.inputs) / seconds_best;
      const double bytes = static_cast<double>(layers[i].weight_bytes()) / seconds_best;
      if (options.json) {
        io::Json line = MachineJson(options, c, rates);
        line["layer"] = shape.name;
        line["rows"] = M;
        line["outputs"] = shape.outputs;
        line["inputs"] = shape.inputs;
        line["dtype"] = PrecisionName(precisions[i]);
        line["kernel"] = KernelName(precisions[i]);
        line["best_ms"] = times[i].best();
        line["median_ms"] = times[i].median();
        line["gflops"] = flops / 1e9;
        PrintJsonLine(line);
      } else {
        Print("{:<15} {:>7} {:>6}  {:<5} {:>9} {:>9} {:9.1f} {:8.2f} {:10.2f}\n", shape.name, shape.outputs,
              shape.inputs, PrecisionName(precisions[i]), ShortMilliseconds(times[i].best()),
              ShortMilliseconds(times[i].median()), flops / 1e9, flops / rates.flops, bytes / rates.bytes);
      }
    }
  }
  if (!options.json) {
    Print(
        "\nof peak: of fp32's peak, so lower precisions may exceed 1; of memory: the weights alone, read once, of\n"
        "the bandwidth.\n");
  }
  return 0;
}

namespace {

// One pass over attention, forward or its gradient.
struct AttentionPass {
  const char* what;
  const char* dtype;
  double products;  // number of N·N·E products
  std::function<void()> run;
};

}  // namespace

int BenchAttention(const BenchOptions& options, const app::AnyModel& opened,
                   const std::vector<simd::Precision>& precisions) {
  const model::VitConfig c = ConfigToMeasure(opened);
  // Both lower precisions compute the products of attention in bfloat16 if the machine has it.
  const bool low = precisions.size() > 1 && simd::Describe(simd::Precision::kBfloat16).native;
  simd::Rates rates = simd::MeasureRates();
  if (!options.json) {
    Print("{} heads of {}, batch {}, {}\n\n", c.block.attention.heads, c.block.attention.head_width, options.batch,
          DescribeMachine(rates));
    Print("{:>6} {:<8}  {:<5} {:>9} {:>9} {:>9} {:>8}\n", "tokens", "pass", "dtype", "best ms", "median ms", "GFLOP/s",
          "of peak");
  }
  const int64_t sizes[] = {c.tokens(), 1024, 4096};
  for (const int64_t N : sizes) {
    const Shape shape{options.batch, c.block.attention.heads, N, c.block.attention.head_width};
    RequireMemory(9 * sizeof(float) * static_cast<double>(shape.size()),
                  fmt::format("bench: attention of {} tokens", N));
    const Tensor<float> q = RandomTensor(shape, 1), k = RandomTensor(shape, 1), v = RandomTensor(shape, 1),
                        dout = RandomTensor(shape, 1);
    Tensor<float> out(shape), lse({options.batch, c.block.attention.heads, N}), dq(shape), dk(shape), dv(shape);
    Arena arena;
    const auto how = [](bool bf16) {
      attention::Options<float> asked;
      asked.bf16 = bf16;
      return asked;
    };
    const auto forward = [&](bool bf16) {
      attention::Attention<float>(q, k, v, how(bf16), out, arena, lse);
      arena.Reset();
    };
    const auto gradient = [&](bool bf16) {
      attention::AttentionBackward<float>({q, k, v, out, lse, dout, dq, dk, dv, {}}, how(bf16), arena);
      arena.Reset();
    };
    std::vector<AttentionPass> passes;
    passes.push_back({"forward", "fp32", 2, [&] { forward(false); }});
    passes.push_back({"gradient", "fp32", 5, [&] { gradient(false); }});
    if (low) {
      passes.push_back({"forward", "bf16", 2, [&] { forward(true); }});
      passes.push_back({"gradient", "bf16", 5, [&] { gradient(true); }});
    }
    const std::vector<Times> times = Interleave(passes.size(), options.seconds / static_cast<double>(std::size(sizes)),
                                                [&](size_t i) { passes[i].run(); });
    rates = Greatest(rates, simd::MeasureRates());
    for (size_t i = 0; i < passes.size(); ++i) {
      const double flops = passes[i].products * 2 * static_cast<double>(q.size() * N) / times[i].best() * 1e3;
      if (options.json) {
        io::Json line = MachineJson(options, c, rates);
        line["tokens"] = N;
        line["heads"] = c.block.attention.heads;
        line["head_width"] = c.block.attention.head_width;
        line["batch"] = options.batch;
        line["pass"] = passes[i].what;
        line["dtype"] = passes[i].dtype;
        line["best_ms"] = times[i].best();
        line["median_ms"] = times[i].median();
        line["gflops"] = flops / 1e9;
        PrintJsonLine(line);
      } else {
        Print("{:>6} {:<8}  {:<5} {:>9} {:>9} {:9.1f} {:8.2f}\n", N, passes[i].what, passes[i].dtype,
              ShortMilliseconds(times[i].best()), ShortMilliseconds(times[i].median()), flops / 1e9,
              flops / rates.flops);
      }
    }
  }
  return 0;
}

}  // namespace qkv::cli
