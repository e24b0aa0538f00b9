// What the modes of `qkv bench` share.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "cli/command.h"
#include "qkv/io/json.h"
#include "qkv/simd/rates.h"

namespace qkv::cli {

struct BenchOptions {
  ModelOptions model;
  std::vector<std::string> images;  // to measure the drift on; empty: random inputs
  std::string without;              // exact savings to switch off, separated by commas
  std::string train;                // D,L,H,PATCH,IMAGE,BATCH of the model to train
  int64_t batch = 1;
  double seconds = 3;
  bool json = false;
};

/// Speed, memory and drift of a model in each of the given precisions.
int BenchModel(const BenchOptions& options, const std::vector<simd::Precision>& precisions);
/// For each line of stdin one pass, its milliseconds on a line of stdout.
int BenchFromStdin(const BenchOptions& options, simd::Precision precision);
/// The linear layers of a model's block, one by one, as fractions of what the machine can do.
int BenchLayers(const BenchOptions& options, const std::vector<simd::Precision>& precisions);
/// Attention alone and its gradient, in these precisions, over the number of tokens.
int BenchAttention(const BenchOptions& options, const std::vector<simd::Precision>& precisions);
/// Steps of training of a model of options.train's shape: for each line of stdin one, or a report.
int BenchTrain(const BenchOptions& options, simd::Precision precision, bool from_stdin);
/// What is wrong with a text for options.train, or nothing.
std::string CheckTrainShape(const std::string& text);

/// The model as the options ask for it, but in this precision.
model::Model LoadForBench(const model::Checkpoint& checkpoint, const BenchOptions& options, simd::Precision precision);

/// "vit-base (vit_base_patch16_224)"
std::string NameOf(const BenchOptions& options, const model::VitConfig& config);
/// "2 threads, avx512 kernels, peak 480 GFLOP/s in fp32, memory 36 GB/s"
std::string DescribeMachine(const simd::Rates& rates);
/// The fields that every line of --json begins with: model, size, threads, kernels, rates.
io::Json MachineJson(const BenchOptions& options, const model::VitConfig& config, const simd::Rates& rates);
/// The kernel behind a precision; "widened" where it only stores.
std::string KernelOf(simd::Precision precision);
/// Three significant digits at least.
std::string ShortMilliseconds(double milliseconds);
/// Of two measurements of the same machine; what other programs took away is not its fault.
simd::Rates Greatest(const simd::Rates& a, const simd::Rates& b);

struct Times {
  std::vector<double> milliseconds;  // sorted

  double best() const { return milliseconds.front(); }
  double median() const { return milliseconds[milliseconds.size() / 2]; }
};

double MillisecondsSince(std::chrono::steady_clock::time_point start);

/// Runs the contestants in turns, so that all see the same machine, for so many seconds and at least five rounds.
/// Each gets a round beforehand that does not count. run(i) is contestant i.
template <typename F>
std::vector<Times> Interleave(size_t contestants, double seconds, F&& run) {
  std::vector<Times> times(contestants);
  for (size_t i = 0; i < contestants; ++i) run(i);
  const auto start = std::chrono::steady_clock::now();
  for (int round = 0; round < 5 || MillisecondsSince(start) < 1e3 * seconds; ++round) {
    for (size_t i = 0; i < contestants; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      run(i);
      times[i].milliseconds.push_back(MillisecondsSince(begin));
    }
  }
  for (Times& t : times) std::sort(t.milliseconds.begin(), t.milliseconds.end());
  return times;
}

}  // namespace qkv::cli
