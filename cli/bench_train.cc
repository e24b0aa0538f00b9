// qkv bench --train: training steps of a Vision Transformer of a given shape.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <iostream>
#include <string>

#include "cli/bench.h"
#include "cli/output.h"
#include "qkv/core/parallel.h"
#include "qkv/lab/timed_step.h"
#include "qkv/model/layout/cost.h"
#include "qkv/simd/isa.h"

namespace qkv::cli {
namespace {

struct TrainShape {
  int64_t width = 0, depth = 0, heads = 0, patch = 0, image = 0, batch = 0;
};

TrainShape ParseTrainShape(const std::string& text) {
  std::array<int64_t, 6> n{};
  const char *at = text.data(), *end = at + text.size();
  size_t count = 0;
  for (; count < n.size(); ++count) {
    if (count > 0 && (at == end || *at++ != ',')) break;
    const std::from_chars_result read = std::from_chars(at, end, n[count]);
    if (read.ec != std::errc() || n[count] < 1) break;
    at = read.ptr;
  }
  Require(count == n.size() && at == end,
          "expected six numbers from 1 on, D,L,H,PATCH,IMAGE,BATCH such as 192,9,3,4,32,64, got \"{}\"", text);
  const TrainShape shape{n[0], n[1], n[2], n[3], n[4], n[5]};
  Require(shape.width % shape.heads == 0, "expected a width that the {} heads divide, got {}", shape.heads,
          shape.width);
  Require(shape.image % shape.patch == 0, "expected an image side that patches of {} divide, got {}", shape.patch,
          shape.image);
  return shape;
}

// timm's VisionTransformer with ten classes.
model::VitConfig MakeConfig(const TrainShape& shape) {
  model::VitConfig config;
  config.image_height = config.image_width = shape.image;
  config.patch_height = config.patch_width = shape.patch;
  config.block.width = shape.width, config.depth = shape.depth, config.block.attention.heads = shape.heads;
  config.block.attention.head_width = shape.width / shape.heads, config.block.mlp.width = 4 * shape.width;
  config.classes = 10;
  return config;
}

}  // namespace

std::string CheckTrainShape(const std::string& text) {
  try {
    ParseTrainShape(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

int BenchTrain(const BenchOptions& options, simd::Precision precision, bool from_stdin) {
  Require(precision != simd::Precision::kInt8, "bench: training is in fp32 or bf16, not in int8");
  const TrainShape shape = ParseTrainShape(options.train);
  lab::TimedStep<train::Network> step(MakeConfig(shape), shape.batch, precision == simd::Precision::kBfloat16);
  step.Run();  // the first step sizes the workspaces
  if (from_stdin) {
    for (std::string line; std::getline(std::cin, line);) {
      const auto start = std::chrono::steady_clock::now();
      step.Run();
      Print("{:.4f}\n", MillisecondsSince(start));
      FlushOutput();
    }
    return 0;
  }
  simd::Rates rates = simd::MeasureRates();
  const Times times = Interleave(1, options.seconds, [&](size_t) { step.Run(); }).front();
  rates = Greatest(rates, simd::MeasureRates());
  const double images = 1e3 * static_cast<double>(shape.batch) / times.best();
  // The backward pass has two products of the same size for each product of the forward pass.
  const double gflops = 3 * model::Flops(step.config()) * images / 1e9;
  const int64_t parameters = model::Parameters(step.config());
  if (options.json) {
    const io::Json line = {{"train", options.train},
                           {"dtype", PrecisionName(precision)},
                           {"threads", NumThreads()},
                           {"isa", simd::Name(simd::ActiveIsa())},
                           {"parameters", parameters},
                           {"peak_gflops", rates.flops / 1e9},
                           {"best_ms", times.best()},
                           {"median_ms", times.median()},
                           {"steps", times.milliseconds.size()},
                           {"images_per_second", images},
                           {"gflops", gflops},
                           {"bytes", step.bytes()}};
    PrintJsonLine(line);
    return 0;
  }
  Print("{} parameters, batch {} of {}x{}, {} steps of AdamW, {}\n\n", parameters, shape.batch, shape.image,
        shape.image, times.milliseconds.size(), DescribeMachine(rates));
  Print("{:<6} {:>9} {:>10} {:>9} {:>8} {:>8} {:>11}\n", "dtype", "best ms", "median ms", "images/s", "GFLOP/s",
        "of peak", "memory MiB");
  Print("{:<6} {:>9} {:>10} {:9.1f} {:8.1f} {:8.2f} {:11.1f}\n", PrecisionName(precision),
        ShortMilliseconds(times.best()), ShortMilliseconds(times.median()), images, gflops,
        gflops / (rates.flops / 1e9), static_cast<double>(step.bytes()) / (1 << 20));
  Print(
      "\nGFLOP/s: three forward passes of the whole model, so that savings count as speed. of peak: of the fp32\n"
      "multiply-adds measured beside it. memory: gradients, activations and scratch; weights and moments are 12 bytes\n"
      "a parameter more.\n");
  return 0;
}

}  // namespace qkv::cli
