// Shared by the modes of `qkv bench`.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "qkv/core/turns.h"
#include "qkv/io/json.h"
#include "qkv/simd/rates.h"

namespace qkv::cli {

struct BenchOptions {
  ModelOptions model;
  std::vector<std::string> images;  // for measuring the drift; empty: random inputs
  std::string without;              // exact savings to switch off, separated by commas
  std::string train;                // D,L,H,PATCH,IMAGE,BATCH: shape of the model to train
  std::string tokens;               // numbers of tokens of random texts, separated by commas; empty: by the model
  std::string work;                 // for a text model, such as "decode"; empty: all
  int64_t batch = 0;                // 0: 1 image, or as many texts as the work usually has
  double seconds = 3;
  bool json = false;
};

/// Speed, memory and drift of a model in each of the given precisions.
int BenchModel(const BenchOptions& options, const app::AnyModel& opened,
               const std::vector<simd::Precision>& precisions);
/// One pass for each line of stdin; prints its milliseconds on a line of stdout.
int BenchFromStdin(const BenchOptions& options, const app::AnyModel& opened, simd::Precision precision);
/// Speed, memory and drift of a text model; or one pass for each line of stdin.
int BenchText(const BenchOptions& options, const app::AnyModel& opened, const std::vector<simd::Precision>& precisions);
int BenchTextFromStdin(const BenchOptions& options, const app::AnyModel& opened, simd::Precision precision);
/// The error in a text for options.tokens, or an empty string.
std::string CheckTokenCounts(const std::string& text);
/// The linear layers of a model's block, one by one, as fractions of the machine's peak rates.
int BenchLayers(const BenchOptions& options, const app::AnyModel& opened,
                const std::vector<simd::Precision>& precisions);
/// Attention alone and its gradient in these precisions, for several numbers of tokens.
int BenchAttention(const BenchOptions& options, const app::AnyModel& opened,
                   const std::vector<simd::Precision>& precisions);
/// Training steps of a model of the shape options.train: one for each line of stdin, or a report.
int BenchTrain(const BenchOptions& options, simd::Precision precision, bool from_stdin);
/// The error in a text for options.train, or an empty string.
std::string CheckTrainShape(const std::string& text);

/// The model to be built in this precision, without the savings that are switched off.
app::AnyModel ForBench(const app::AnyModel& model, const BenchOptions& options, simd::Precision precision);

/// "vit-base (vit_base_patch16_224)"
std::string ModelTitle(const BenchOptions& options, const model::VitConfig& config);
/// "2 threads, avx512 kernels, peak 480 GFLOP/s in fp32, memory 36 GB/s"
std::string DescribeMachine(const simd::Rates& rates);
/// The fields that every line of --json begins with: model, size, threads, kernels, rates.
io::Json MachineJson(const BenchOptions& options, const model::VitConfig& config, const simd::Rates& rates);
/// The kernel of a precision; "(widened)" if the precision is only stored.
std::string KernelName(simd::Precision precision);
/// At least three significant digits.
std::string ShortMilliseconds(double milliseconds);
/// The greater rates of two measurements of one machine: other programs only lower them.
simd::Rates Greatest(const simd::Rates& a, const simd::Rates& b);

/// A sentence on a lower precision, by its speed relative to fp32's.
std::string SayGain(simd::Precision precision, double gain);
double MiB(int64_t bytes);
/// The peak memory of this process since ResetPeakMemory, in bytes; 0 if Linux does not report it.
int64_t PeakMemory();
void ResetPeakMemory();

}  // namespace qkv::cli
