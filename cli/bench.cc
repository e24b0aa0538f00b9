// qkv bench: speed of a model on this machine in each precision, and the drift of the lower ones.
#include "cli/bench.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string_view>
#include <tuple>

#include "qkv/core/parallel.h"
#include "qkv/simd/isa.h"

namespace qkv::cli {
namespace {

struct Saving {
  std::string_view name;
  bool model::BuildOptions::*option;
};
constexpr Saving kSavings[] = {
    {"fold-norms", &model::BuildOptions::fold_norms},
    {"fold-scales", &model::BuildOptions::fold_scales},
    {"fold-biases", &model::BuildOptions::fold_key_value_bias},
    {"read-rows", &model::BuildOptions::read_rows},
    {"merge", &model::BuildOptions::merge},
    {"absorb", &model::BuildOptions::absorb},
};

std::string SavingNames(std::string_view between) {
  std::string names;
  for (const Saving& saving : kSavings) names += fmt::format("{}{}", names.empty() ? "" : between, saving.name);
  return names;
}

// Switches off the savings that `list` names; returns the error, or an empty string.
std::string SwitchOff(const std::string& list, model::BuildOptions* build) {
  size_t begin = 0;
  while (begin < list.size()) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view name = std::string_view(list).substr(begin, end - begin);
    bool known = name == "all";
    for (const Saving& saving : kSavings) {
      if (name != "all" && name != saving.name) continue;
      build->*saving.option = false;
      known = true;
    }
    if (!known)
      return fmt::format("expected all, or some of {} separated by commas, got \"{}\"", SavingNames(", "), name);
    begin = end + 1;
  }
  return "";
}

// A lower precision that gains less than the noise of a quiet machine does not count as faster.
constexpr double kFaster = 1.03;

struct Modes {
  bool from_stdin = false, layer = false, attention = false;
};

// All precisions without --dtype; with it fp32 and that one. --stdin measures one.
std::vector<simd::Precision> PrecisionsFor(const BenchOptions& options, bool from_stdin) {
  using simd::Precision;
  if (!options.model.has_dtype && !from_stdin) return {Precision::kFloat32, Precision::kBfloat16, Precision::kInt8};
  const Precision precision = options.model.build.precision;
  if (from_stdin || precision == Precision::kFloat32) return {precision};
  return {Precision::kFloat32, precision};
}

int Bench(BenchOptions options, const Modes& modes) {
  const std::vector<simd::Precision> precisions = PrecisionsFor(options, modes.from_stdin);
  if (!options.train.empty()) {
    if (options.model.threads > 0) SetNumThreads(options.model.threads);
    return BenchTrain(options, options.model.build.precision, modes.from_stdin);
  }
  const app::AnyModel model = OpenModel(options.model);
  if (model.facts().is_text()) {
    Require(!modes.layer && !modes.attention,
            "bench: --layer and --attention apply to image models only, and {} is a text model", options.model.path);
    return modes.from_stdin ? BenchTextFromStdin(options, model, precisions.front())
                            : BenchText(options, model, precisions);
  }
  Require(options.tokens.empty() && options.work.empty(), "bench: --tokens and --work apply to text models only");
  if (options.batch == 0) options.batch = 1;
  if (modes.attention) return BenchAttention(options, model, precisions);
  if (modes.layer) return BenchLayers(options, model, precisions);
  Require(!modes.from_stdin || options.images.empty(), "bench: --stdin measures random images; leave the files out");
  if (modes.from_stdin) return BenchFromStdin(options, model, precisions.front());
  return BenchModel(options, model, precisions);
}

}  // namespace

app::AnyModel ForBench(const app::AnyModel& model, const BenchOptions& options, simd::Precision precision) {
  model::BuildOptions build{.precision = precision};
  SwitchOff(options.without, &build);  // checked when it was parsed
  return model.With(build);
}

std::string ModelTitle(const BenchOptions& options, const model::VitConfig& config) {
  return fmt::format("{} ({})", options.model.path.empty() ? "built-in digit classifier" : options.model.path,
                     config.architecture);
}

std::string DescribeMachine(const simd::Rates& rates) {
  return fmt::format("{} thread{}, {} kernels, peak {:.0f} GFLOP/s in fp32, memory {:.0f} GB/s", NumThreads(),
                     NumThreads() == 1 ? "" : "s", simd::Name(simd::ActiveIsa()), rates.flops / 1e9, rates.bytes / 1e9);
}

io::Json MachineJson(const BenchOptions& options, const model::VitConfig& config, const simd::Rates& rates) {
  return {{"model", options.model.path.empty() ? "built-in" : options.model.path},
          {"architecture", config.architecture},
          {"size", {config.image_height, config.image_width}},
          {"threads", NumThreads()},
          {"isa", simd::Name(simd::ActiveIsa())},
          {"peak_gflops", rates.flops / 1e9},
          {"memory_gbytes", rates.bytes / 1e9}};
}

std::string KernelName(simd::Precision precision) {
  const simd::PrecisionSupport support = simd::Describe(precision);
  const bool widened = precision == simd::Precision::kBfloat16 && !support.native;
  return fmt::format("{}{}", support.kernel, widened ? " (widened)" : "");
}

std::string ShortMilliseconds(double milliseconds) {
  return fmt::format("{:.{}f}", milliseconds, milliseconds < 1 ? 4 : milliseconds < 10 ? 3 : 2);
}

simd::Rates Greatest(const simd::Rates& a, const simd::Rates& b) {
  return {std::max(a.flops, b.flops), std::max(a.bytes, b.bytes)};
}

std::string SayGain(simd::Precision precision, double gain) {
  if (gain >= kFaster) return fmt::format("{} is {:.2f} times as fast as fp32 here.", PrecisionName(precision), gain);
  return fmt::format("{} is not faster here ({:.2f} of fp32's speed){}; it saves memory only.",
                     PrecisionName(precision), gain,
                     simd::Describe(precision).native ? "" : ": this machine has no faster instructions for it");
}

double MiB(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

int64_t PeakMemory() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) return kilobytes * 1024;
  }
  return 0;
}

void ResetPeakMemory() {
#ifdef __GLIBC__
  ::malloc_trim(0);  // return freed memory first
#endif
  std::ofstream("/proc/self/clear_refs") << 5;
}

void RegisterBench(Command app, int* exit_code) {
  const auto options = std::make_shared<BenchOptions>();
  const auto modes = std::make_shared<Modes>();
  const Command command = app.AddCommand("bench", "Measure a model's speed on this machine");
  options->model.AddModel(command);
  options->model.AddSize(command);
  options->model.AddCompute(command);
  command.Find("--dtype").Description("Only this precision, beside fp32 (default: all; with --stdin, fp32)");
  const Option images =
      command.AddOption("IMAGE", &options->images,
                        "Images or folders to measure the drift on; for a text model a file of texts, one a line, "
                        "which are also embedded, or read and written (default: random inputs)");
  command
      .AddOption("--batch", &options->batch,
                 "Images or texts a pass (default: 1; texts of an encoder, or of a beam search, 32; of a decoder 8 "
                 "beside 1)")
      .Range(1, 4096);
  const Option tokens =
      command
          .AddOption("--tokens", &options->tokens,
                     "Tokens of each random text (default: 128; of a prompt 512; read and written "
                     "by an encoder-decoder 32); several numbers, separated by commas, for an encoder")
          .TypeName("N")
          .Check(CheckTokenCounts);
  const Option work = command
                          .AddOption("--work", &options->work,
                                     "For a text model: only this work; decode: a pass is 16 tokens of each text")
                          .OneOf({"embed", "prefill", "decode", "decode-batch", "greedy", "beams"});
  command.AddOption("--seconds", &options->seconds, "Seconds to measure, in all").Range(0.0, 3600.0).ShowDefault();
  const Option without =
      command.AddOption("--without", &options->without, "Exact savings to switch off: all, or a list of some")
          .TypeName("all|" + SavingNames("|"))
          .Check([](const std::string& list) {
            model::BuildOptions build;
            return SwitchOff(list, &build);
          });
  const Option json = command.AddFlag("--json", &options->json, "JSON Lines on stdout");
  const Option from_stdin = command.AddFlag("--stdin", &modes->from_stdin,
                                            "For each line read, one pass or step, its milliseconds on a line out");
  const Option layer = command.AddFlag("--layer", &modes->layer, "The linear layers of a block, one by one");
  const Option attention =
      command.AddFlag("--attention", &modes->attention, "Attention and its gradient alone, over the number of tokens");
  const Option train = command
                           .AddOption("--train", &options->train,
                                      "Steps of training of a Vision Transformer of width D with L blocks of H heads")
                           .TypeName("D,L,H,PATCH,IMAGE,BATCH")
                           .Check(CheckTrainShape);
  for (const char* other : {"--model", "--size", "--batch"}) train.Excludes(command.Find(other));
  train.Excludes(images).Excludes(without).Excludes(layer).Excludes(attention);
  from_stdin.Excludes(json).Excludes(layer).Excludes(attention);
  layer.Excludes(attention).Excludes(images).Excludes(without);
  attention.Excludes(images).Excludes(without);
  train.Excludes(tokens).Excludes(work);
  command.Callback([options, modes, exit_code] { *exit_code = Bench(*options, *modes); });
}

}  // namespace qkv::cli
