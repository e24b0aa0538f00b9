// qkv bench: how fast a model runs here.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "qkv/core/parallel.h"
#include "qkv/core/rng.h"
#include "qkv/simd/isa.h"

namespace qkv::cli {
namespace {

struct Options {
  ModelOptions model;
  int64_t batch = 1;
  double seconds = 3;
  bool from_stdin = false;
};

class TimedForward {
 public:
  TimedForward(const model::Model& model, const model::VitConfig& c, int64_t batch)
      : model_(model),
        pixels_({batch, c.channels, c.image_height, c.image_width}),
        logits_({batch, model.config().outputs()}) {
    Rng rng(1);
    for (float& x : pixels_.span()) x = static_cast<float>(rng.Normal());
  }
  double Milliseconds() {
    const auto start = std::chrono::steady_clock::now();
    model_.Forward(pixels_, workspace_, {.logits = logits_});
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  const model::Model& model_;
  Tensor<float> pixels_, logits_;
  model::Workspace<float> workspace_;
};

int Bench(const Options& options) {
  const model::Model model = LoadModel(options.model);
  model::VitConfig config = model.config();
  if (!options.model.size.empty()) std::tie(config.image_height, config.image_width) = ParseSize(options.model.size);
  TimedForward forward(model, config, options.batch);
  forward.Milliseconds();  // the first pass sizes the workspace
  if (options.from_stdin) {
    for (std::string line; std::getline(std::cin, line);) {
      fmt::print("{:.4f}\n", forward.Milliseconds());
      std::fflush(stdout);
    }
    return 0;
  }
  std::vector<double> times;
  const auto start = std::chrono::steady_clock::now();
  while (times.size() < 5 ||
         std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < options.seconds) {
    times.push_back(forward.Milliseconds());
  }
  std::sort(times.begin(), times.end());
  const double best = times.front(), median = times[times.size() / 2];
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const double flops = model::Flops(config) * static_cast<double>(options.batch);
  fmt::print("{} passes of batch {}, fp32, {} kernels, {} threads\n", times.size(), options.batch,
             simd::Name(simd::ActiveIsa()), NumThreads());
  fmt::print("best    {:8.2f} ms  {:8.1f} images/s  {:7.1f} GFLOP/s\n", best,
             1e3 * static_cast<double>(options.batch) / best, flops / best / 1e6);
  fmt::print("median  {:8.2f} ms  {:8.1f} images/s  {:7.1f} GFLOP/s\n", median,
             1e3 * static_cast<double>(options.batch) / median, flops / median / 1e6);
  fmt::print("peak memory {:.0f} MiB\n", static_cast<double>(usage.ru_maxrss) / 1024);
  return 0;
}

}  // namespace

void RegisterBench(CLI::App& app, int* exit_code) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("bench", "Measure a model's speed on this machine");
  options->model.AddModel(*command);
  options->model.AddSize(*command);
  options->model.AddCompute(*command);
  command->add_option("--batch", options->batch, "Images a pass")->check(CLI::Range(1, 4096))->capture_default_str();
  command->add_option("--seconds", options->seconds, "How long to measure")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  command->add_flag("--stdin", options->from_stdin, "For each line read, one pass, its milliseconds on a line out");
  command->callback([options, exit_code] { *exit_code = Bench(*options); });
}

}  // namespace qkv::cli
