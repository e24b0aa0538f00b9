// qkv bench: the whole model in each precision, side by side.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <string>

#include "cli/bench.h"
#include "cli/images.h"
#include "cli/output.h"
#include "qkv/app/open/open.h"
#include "qkv/app/timing/drift.h"
#include "qkv/core/memory.h"
#include "qkv/lab/timed_step.h"
#include "qkv/model/blocks/finite.h"
#include "qkv/model/layout/cost.h"
#include "qkv/model/vision/where_not_finite.h"
#include "qkv/simd/isa.h"

namespace qkv::cli {
namespace {

using simd::Precision;

constexpr int64_t kRandomInputs = 16;

// Random pixels of the measured size.
Tensor<float> PixelsFor(const model::VitConfig& config, const model::Model& model, int64_t count) {
  RequireMemory(model.vit().PassBytes(count, config.image_height, config.image_width),
                fmt::format("bench: {} images of {}x{}", count, config.image_height, config.image_width));
  return lab::RandomInputs(config, count);
}

// A model without a classifier answers with a vector, whose greatest entry is no class.
bool HasClasses(const model::VitConfig& c) { return c.heads() != model::HeadKind::kVector; }

// What the model's heads give for a batch of pixels. The first of its tensors is logits, or without classes a vector.
class HeadOutputs {
 public:
  HeadOutputs(const model::VitConfig& c, const Shape& pixels) : config_(c) {
    model::Outputs<float> none;
    model::VisitHeadOutputs(c, pixels[0], pixels[2] / c.patch_height, pixels[3] / c.patch_width, none,
                            [&](const char*, const Shape& shape, const View<float>&) { tensors_.emplace_back(shape); });
  }
  View<float> first() { return tensors_.front(); }
  model::Outputs<float> views() {
    model::Outputs<float> outputs;
    size_t next = 0;
    model::VisitHeadOutputs(config_, 0, 0, 0, outputs,
                            [&](const char*, const Shape&, View<float>& out) { out = tensors_[next++]; });
    return outputs;
  }

 private:
  const model::VitConfig& config_;
  std::vector<Tensor<float>> tensors_;
};

// One pass of a batch of random pixels.
class TimedForward {
 public:
  TimedForward(const model::VitConfig& config, const model::Model& model, int64_t batch)
      : model_(model), pixels_(PixelsFor(config, model, batch)), heads_(model.config(), pixels_.shape()) {}
  void Run() { model_.Forward(pixels_, workspace_, heads_.views()); }

 private:
  const model::Model& model_;
  Tensor<float> pixels_;
  HeadOutputs heads_;
  model::Workspace<float> workspace_;
};

// Inputs for the drift: images, decoded once for all precisions, or random pixels.
struct DriftInputs {
  std::vector<Tensor<float>> pixels;  // [B, channels, height, width] each
  int64_t images = 0;
  int failed = 0;  // files that could not be read
  bool random = false;
};

DriftInputs ReadDriftInputs(const BenchOptions& options, const model::VitConfig& config, const model::Model& model) {
  DriftInputs inputs;
  if (options.images.empty()) {
    inputs.random = true;
    inputs.images = kRandomInputs;
    const Tensor<float> all = PixelsFor(config, model, kRandomInputs);
    for (int64_t i = 0; i < kRandomInputs; ++i) {
      inputs.pixels.emplace_back(Shape({1, all.dim(1), all.dim(2), all.dim(3)}));
      std::copy_n(all.view().at(i), inputs.pixels.back().size(), inputs.pixels.back().data());
    }
    return inputs;
  }
  ImageOptions images;
  images.paths = options.images;
  const ImageList list = CollectImages(images.paths);
  inputs.failed = ForEachBatch(images, list, model, Wanted::kPixels, [&](const Batch& batch) {
    inputs.pixels.emplace_back(batch.values.shape());
    std::copy_n(batch.values.data(), batch.values.size(), inputs.pixels.back().data());
    inputs.images += batch.values.dim(0);
  });
  Require(inputs.images > 0,
          "bench: no image could be read to measure the drift on; without images, random inputs are");
  return inputs;
}

// The first output of the heads, a row for each image, or for each box or mask of one: [rows, outputs].
Tensor<float> ComputeLogits(const DriftInputs& inputs, const model::Model& model) {
  std::vector<float> all;
  model::Workspace<float> workspace;
  int64_t image = 0, outputs = 1;
  for (const Tensor<float>& pixels : inputs.pixels) {
    HeadOutputs heads(model.config(), pixels.shape());
    model.Forward(pixels, workspace, heads.views());
    const View<const float> answers = heads.first();
    if (const int64_t b = model::FirstNotFinite(answers); b >= 0) {
      const std::string name = fmt::format("bench: {} {}", inputs.random ? "random input" : "image", image + b);
      model::RequireFinite(model.vit(), pixels.view().slice(0, b, b + 1), answers.slice(0, b, b + 1), name);
    }
    outputs = answers.dim(answers.rank() - 1), image += pixels.dim(0);
    all.insert(all.end(), answers.data(), answers.data() + answers.size());
  }
  auto logits = Tensor<float>::Uninitialised({std::ssize(all) / outputs, outputs});
  std::ranges::copy(all, logits.data());
  return logits;
}

struct Row {
  Precision precision;
  int64_t weights = 0, peak = 0;  // bytes
  app::Drift drift;
  Times times;
};

void PrintJson(const BenchOptions& options, const model::VitConfig& config, const Row& row, double flops,
               const simd::Rates& rates, const DriftInputs& inputs) {
  io::Json line = MachineJson(options, config, rates);
  line["dtype"] = PrecisionName(row.precision);
  line["kernel"] = KernelName(row.precision);
  line["native"] = simd::Describe(row.precision).native;
  line["batch"] = options.batch;
  line["without"] = options.without;
  line["best_ms"] = row.times.best();
  line["median_ms"] = row.times.median();
  line["passes"] = row.times.milliseconds.size();
  line["images_per_second"] = 1e3 * static_cast<double>(options.batch) / row.times.best();
  line["gflops"] = flops / row.times.best() / 1e6;
  line["weight_bytes"] = row.weights;
  line["peak_bytes"] = row.peak;
  line["logit_cosine"] = row.drift.cosine;
  if (HasClasses(config)) line["top1_agreement"] = row.drift.top1;
  line["drift_images"] = inputs.images;
  line["drift_failed"] = inputs.failed;
  line["drift_random"] = inputs.random;
  PrintJsonLine(line);
}

void PrintRow(const BenchOptions& options, const Row& row, double flops, const simd::Rates& rates, bool classes) {
  const double gflops = flops / row.times.best() / 1e6;
  Print("{:<6} {:<15} {:>9} {:>10} {:9.1f} {:8.1f} {:8.2f} {:12.1f} {:11.0f} {:9.5f} {:>8}\n",
        PrecisionName(row.precision), KernelName(row.precision), ShortMilliseconds(row.times.best()),
        ShortMilliseconds(row.times.median()), 1e3 * static_cast<double>(options.batch) / row.times.best(), gflops,
        gflops / (rates.flops / 1e9), MiB(row.weights), MiB(row.peak), row.drift.cosine,
        classes ? fmt::format("{:.1f} %", 100 * row.drift.top1) : "-");
}

// Points out what is easily overlooked in the table.
void PrintNotes(const std::vector<Row>& rows, const DriftInputs& inputs) {
  Print(
      "\nimages/s and GFLOP/s: of the best pass, and of the whole model, so that savings count as speed. of peak: of "
      "the\n"
      "fp32 multiply-adds measured beside it. memory: the most that the process had, loading included. cosine{}: of "
      "the\n"
      "logits with fp32's, on {} {}.\n",
      inputs.random ? "" : ", top-1", inputs.images,
      inputs.random ? "random inputs, which are of no class: give images for top-1" : "images");
  for (const Row& row : rows) {
    if (row.precision == Precision::kFloat32) continue;
    Print("{}\n", SayGain(row.precision, rows.front().times.best() / row.times.best()));
  }
}

}  // namespace

int BenchFromStdin(const BenchOptions& options, const app::AnyModel& opened, Precision precision) {
  app::RequireProportion(opened.images(), opened.entry());
  const model::Model model = ForBench(opened, options, precision).BuildImages();
  TimedForward forward(opened.facts().config, model, options.batch);
  forward.Run();  // the first pass sizes the workspace
  for (std::string line; std::getline(std::cin, line);) {
    const auto start = std::chrono::steady_clock::now();
    forward.Run();
    Print("{:.4f}\n", MillisecondsSince(start));
    FlushOutput();
  }
  return 0;
}

int BenchModel(const BenchOptions& options, const app::AnyModel& opened, const std::vector<Precision>& precisions) {
  app::RequireProportion(opened.images(), opened.entry());
  const model::VitConfig& config = opened.facts().config;  // at the size of --size, or that images become
  // Memory: one precision in the process at a time.
  std::vector<Row> rows;
  for (const Precision precision : precisions) {
    ResetPeakMemory();
    const model::Model model = ForBench(opened, options, precision).BuildImages();
    TimedForward forward(config, model, options.batch);
    forward.Run();
    forward.Run();
    rows.push_back({precision, model.weight_bytes(), PeakMemory(), {}, {}});
  }
  // app::Drift from the first precision, fp32.
  std::vector<model::Model> models;
  for (const Precision precision : precisions) models.push_back(ForBench(opened, options, precision).BuildImages());
  const DriftInputs inputs = ReadDriftInputs(options, config, models.front());
  const Tensor<float> exact = ComputeLogits(inputs, models.front());
  for (size_t i = 0; i < rows.size(); ++i) rows[i].drift = app::ComputeDrift(ComputeLogits(inputs, models[i]), exact);
  // Speed: all precisions in turns.
  const double flops = model::Flops(config) * static_cast<double>(options.batch);
  std::vector<TimedForward> forwards;
  for (const model::Model& model : models) forwards.emplace_back(config, model, options.batch);
  simd::Rates rates = simd::MeasureRates();
  const std::vector<Times> times = Interleave(forwards.size(), options.seconds, [&](size_t i) { forwards[i].Run(); });
  rates = Greatest(rates, simd::MeasureRates());
  for (size_t i = 0; i < rows.size(); ++i) rows[i].times = times[i];
  if (options.json) {
    for (const Row& row : rows) PrintJson(options, config, row, flops, rates, inputs);
  } else {
    Print("{}, batch {} of {}x{}, {} passes of each, {}\n\n", ModelTitle(options, config), options.batch,
          config.image_height, config.image_width, times.front().milliseconds.size(), DescribeMachine(rates));
    Print("{:<6} {:<15} {:>9} {:>10} {:>9} {:>8} {:>8} {:>12} {:>11} {:>9} {:>8}\n", "dtype", "kernel", "best ms",
          "median ms", "images/s", "GFLOP/s", "of peak", "weights MiB", "memory MiB", "cosine", "top-1");
    for (const Row& row : rows) PrintRow(options, row, flops, rates, !inputs.random && HasClasses(config));
    PrintNotes(rows, inputs);
  }
  return inputs.failed > 0 ? 1 : 0;
}

}  // namespace qkv::cli
