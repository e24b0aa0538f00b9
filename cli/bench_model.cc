// qkv bench: the whole model in each precision, side by side.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <numeric>
#include <string>

#include "cli/bench.h"
#include "cli/pipeline.h"
#include "qkv/core/parallel.h"
#include "qkv/core/rng.h"
#include "qkv/io/json.h"
#include "qkv/simd/isa.h"
#include "qkv/simd/rates.h"

namespace qkv::cli {
namespace {

constexpr int64_t kRandomInputs = 16;
// A lower precision that gains less than the noise of a quiet machine does not count as faster.
constexpr double kFaster = 1.03;

// [B, channels, height, width] of the size that was asked for, or of the checkpoint's.
Tensor<float> RandomPixels(const BenchOptions& options, const model::Model& model, int64_t B) {
  const model::VitConfig& c = model.config();
  std::pair<int64_t, int64_t> size{c.image_height, c.image_width};
  if (!options.model.size.empty()) size = ParseSize(options.model.size);
  auto pixels = Tensor<float>::Uninitialised({B, c.channels, size.first, size.second});
  Rng rng(1);
  for (float& x : pixels.span()) x = static_cast<float>(rng.Normal());
  return pixels;
}

// One pass of a batch of random pixels.
class TimedForward {
 public:
  TimedForward(const BenchOptions& options, const model::Model& model)
      : model_(model),
        pixels_(RandomPixels(options, model, options.batch)),
        logits_({options.batch, model.config().outputs()}) {}
  void Run() { model_.Forward(pixels_, workspace_, {.logits = logits_}); }

 private:
  const model::Model& model_;
  Tensor<float> pixels_, logits_;
  model::Workspace<float> workspace_;
};

// The greatest amount of memory this process had since ForgetPeak, in bytes; 0 where Linux does not tell.
int64_t PeakMemory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}
void ForgetPeak() { std::ofstream("/proc/self/clear_refs") << 5; }

// Logits of every image that the drift is measured on: [images, outputs].
Tensor<float> LogitsForDrift(const BenchOptions& options, const model::Model& model) {
  if (options.images.empty()) {
    const Tensor<float> pixels = RandomPixels(options, model, kRandomInputs);
    auto logits = Tensor<float>::Uninitialised({kRandomInputs, model.config().outputs()});
    model::Workspace<float> workspace;
    for (int64_t i = 0; i < kRandomInputs; ++i) {
      model.Forward(pixels.view().slice(0, i, i + 1), workspace, {.logits = logits.view().slice(0, i, i + 1)});
    }
    return logits;
  }
  ImageOptions images;
  images.paths = options.images;
  std::vector<float> all;
  ForEachBatch(images, CollectImages(images.paths), model, Wanted::kLogits, [&](const Batch& batch) {
    all.insert(all.end(), batch.values.data(), batch.values.data() + batch.values.size());
  });
  const int64_t outputs = model.config().outputs();
  auto result = Tensor<float>::Uninitialised({static_cast<int64_t>(all.size()) / outputs, outputs});
  std::copy(all.begin(), all.end(), result.data());
  return result;
}

struct Drift {
  double cosine = 0;  // of the logits, mean over the images
  double top1 = 0;    // share of images with the same first class
};

Drift DriftOf(const Tensor<float>& logits, const Tensor<float>& exact) {
  Drift drift;
  const int64_t images = exact.dim(0), outputs = exact.dim(1);
  for (int64_t i = 0; i < images; ++i) {
    const std::span<const float> a(logits.view().row(i), static_cast<size_t>(outputs)),
        b(exact.view().row(i), static_cast<size_t>(outputs));
    const auto dot = [](std::span<const float> x, std::span<const float> y) {
      return std::inner_product(x.begin(), x.end(), y.begin(), 0.0, std::plus<>(),
                                [](double p, double q) { return p * q; });
    };
    drift.cosine += dot(a, b) / std::sqrt(dot(a, a) * dot(b, b));
    drift.top1 += std::max_element(a.begin(), a.end()) - a.begin() == std::max_element(b.begin(), b.end()) - b.begin();
  }
  drift.cosine /= static_cast<double>(images);
  drift.top1 /= static_cast<double>(images);
  return drift;
}

struct Row {
  simd::Precision precision;
  int64_t weights = 0, peak = 0;  // bytes
  Drift drift;
  Times times;
};

void PrintJson(const BenchOptions& options, const Row& row, double flops, const simd::Rates& rates, int64_t images) {
  const double batch = static_cast<double>(options.batch);
  io::Json line = {{"dtype", NameOf(row.precision)},
                   {"kernel", simd::Describe(row.precision).kernel},
                   {"native", simd::Describe(row.precision).native},
                   {"batch", options.batch},
                   {"threads", NumThreads()},
                   {"best_ms", row.times.best()},
                   {"median_ms", row.times.median()},
                   {"images_per_second", 1e3 * batch / row.times.best()},
                   {"gflops", flops / row.times.best() / 1e6},
                   {"peak_gflops_fp32", rates.flops / 1e9},
                   {"weight_bytes", row.weights},
                   {"peak_bytes", row.peak},
                   {"logit_cosine", row.drift.cosine},
                   {"top1_agreement", row.drift.top1},
                   {"drift_images", images}};
  fmt::print("{}\n", line.dump());
}

void PrintRow(const BenchOptions& options, const Row& row, double flops, const simd::Rates& rates) {
  const double batch = static_cast<double>(options.batch), gflops = flops / row.times.best() / 1e6;
  fmt::print("{:<5} {:<14} {:8.2f} {:8.2f} {:9.1f} {:9.1f} {:6.2f} {:9.0f} {:9.0f} {:9.6f} {:6.1f} %\n",
             NameOf(row.precision), simd::Describe(row.precision).kernel, row.times.best(), row.times.median(),
             1e3 * batch / row.times.best(), gflops, gflops / (rates.flops / 1e9),
             static_cast<double>(row.weights) / (1 << 20), static_cast<double>(row.peak) / (1 << 20), row.drift.cosine,
             100 * row.drift.top1);
}

// What a table alone would let one overlook.
void PrintNotes(const std::vector<Row>& rows, int64_t images, bool random) {
  fmt::print("\nof peak: of {} in fp32. cosine, top-1: logits against fp32 on {} {}.\n",
             "the multiply-adds measured now", images,
             random ? "random inputs (give images to measure on them)" : "images");
  for (const Row& row : rows) {
    const double gain = rows.front().times.best() / row.times.best();
    if (row.precision == simd::Precision::kFloat32 || rows.front().precision != simd::Precision::kFloat32) continue;
    if (gain < kFaster) {
      fmt::print("{} is not faster here ({:.2f} of fp32's speed){}; it saves memory only.\n", NameOf(row.precision),
                 gain, simd::Describe(row.precision).native ? "" : ": this machine has no instructions for it");
    } else {
      fmt::print("{} is {:.2f} times as fast as fp32 here.\n", NameOf(row.precision), gain);
    }
  }
}

}  // namespace

int BenchFromStdin(const BenchOptions& options, simd::Precision precision) {
  const model::Model model = LoadForBench(OpenCheckpoint(options.model), options, precision);
  TimedForward forward(options, model);
  forward.Run();  // the first pass sizes the workspace
  for (std::string line; std::getline(std::cin, line);) {
    const auto start = std::chrono::steady_clock::now();
    forward.Run();
    fmt::print("{:.4f}\n", MillisecondsSince(start));
    std::fflush(stdout);
  }
  return 0;
}

int BenchModel(const BenchOptions& options, const std::vector<simd::Precision>& precisions) {
  const model::Checkpoint checkpoint = OpenCheckpoint(options.model);
  std::vector<Row> rows;
  Tensor<float> exact;  // fp32's logits
  int64_t drift_images = 0;
  model::VitConfig config;
  // Memory and drift, one precision alone in the process at a time.
  if (precisions.front() != simd::Precision::kFloat32) {
    exact = LogitsForDrift(options, LoadForBench(checkpoint, options, simd::Precision::kFloat32));
  }
  for (const simd::Precision precision : precisions) {
    ForgetPeak();
    const model::Model model = LoadForBench(checkpoint, options, precision);
    {
      TimedForward forward(options, model);
      forward.Run();
      forward.Run();
    }
    rows.push_back({precision, model.weight_bytes(), PeakMemory(), {}, {}});
    Tensor<float> logits = LogitsForDrift(options, model);
    if (exact.empty()) exact = logits.Clone();
    rows.back().drift = DriftOf(logits, exact);
    drift_images = logits.dim(0);
    config = model.config();
  }
  // Speed, all of them in turns.
  if (!options.model.size.empty()) std::tie(config.image_height, config.image_width) = ParseSize(options.model.size);
  const double flops = model::Flops(config) * static_cast<double>(options.batch);
  const simd::Rates rates = simd::MeasureRates();
  std::vector<model::Model> models;
  for (const simd::Precision precision : precisions) models.push_back(LoadForBench(checkpoint, options, precision));
  std::vector<TimedForward> forwards;
  for (const model::Model& model : models) forwards.emplace_back(options, model);
  const std::vector<Times> times = Interleave(forwards.size(), options.seconds, [&](size_t i) { forwards[i].Run(); });
  for (size_t i = 0; i < rows.size(); ++i) rows[i].times = times[i];
  if (options.json) {
    for (const Row& row : rows) PrintJson(options, row, flops, rates, drift_images);
    return 0;
  }
  fmt::print("{}, batch {} of {}x{}, {} passes, {} threads, {} kernels\n\n", config.architecture, options.batch,
             config.image_height, config.image_width, times.front().milliseconds.size(), NumThreads(),
             simd::Name(simd::ActiveIsa()));
  fmt::print(
      "dtype kernel          best ms   median  images/s   GFLOP/s of peak  weights MiB  peak    cosine    top-1\n");
  for (const Row& row : rows) PrintRow(options, row, flops, rates);
  PrintNotes(rows, drift_images, options.images.empty());
  return 0;
}

}  // namespace qkv::cli
