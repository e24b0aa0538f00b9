#include "cli/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>

#include "cli/output.h"
#include "qkv/builtin/digits.h"
#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"
#include "qkv/model/checkpoint/limits.h"

namespace qkv::cli {

void ModelOptions::AddModel(Command command) {
  command
      .AddOption("-m,--model", &path, "Folder or .safetensors file; without it the built-in digit classifier answers")
      .TypeName("MODEL");
  command
      .AddOption("--heads", &given.heads, "Attention heads of a model without a config.json, whose tensors do not say")
      .Range(1, 1 << 20)
      .TypeName("N");
  AddMaxMemory(command);
}

void ModelOptions::AddPrecision(Command command) {
  command
      .AddOption("--dtype", &dtype,
                 "Precision of the linear layers and attention's products; auto: bf16 where the processor is faster "
                 "in it, else fp32")
      .OneOf({"fp32", "bf16", "int8", "auto"})
      .ShowDefault();
  command.AddOption("--threads", &threads, "Threads (default: all cores)").Range(1, 1024).TypeName("N");
}

void ModelOptions::AddCompute(Command command) {
  AddPrecision(command);
  command.AddFlag("--cache", {kCacheUse, kCacheVerify}, &cache,
                  "Keep the built model on disk, so that the next start is immediate (always where QKV_CACHE is set); "
                  "--cache=verify: compare checksums of the model and of what was kept first");
}

void ModelOptions::AddSize(Command command) {
  command.AddOption("--size", &size, "Input size, instead of the checkpoint's own; positions are interpolated")
      .TypeName("HxW");
}

namespace {

void ReportAssumptions(const model::Checkpoint& checkpoint) {
  for (const std::string& assumption : checkpoint.description.assumptions) {
    PrintMessage("qkv: {}: assumed: {}\n", checkpoint.source, assumption);
  }
}

model::Cache CacheOf(const ModelOptions& options) {
  const auto note = [](const std::string& text) { PrintMessage("qkv: {}\n", text); };
  const char* folder = std::getenv("QKV_CACHE");
  if (options.cache.empty() && (folder == nullptr || *folder == '\0')) return {};
  model::Cache cache{model::CacheFolder(), note};
  cache.verify = options.cache == kCacheVerify;
  if (cache.folder.empty()) note("no cache: none of QKV_CACHE, XDG_CACHE_HOME and HOME names a folder");
  return cache;
}

}  // namespace

void AddMaxMemory(Command command) {
  command
      .AddBytes(
          "--max-memory",
          [](uint64_t bytes) { SetMemoryLimit(static_cast<int64_t>(std::min<uint64_t>(bytes, INT64_MAX))); },
          "Refuse what an estimate says takes more, such as 4GB (default: half of the machine's)")
      .TypeName("SIZE");
}

model::Checkpoint OpenCheckpoint(const ModelOptions& options, bool tell) {
  if (!options.path.empty()) {
    model::Checkpoint checkpoint = model::Checkpoint::Open(options.path, options.given);
    if (tell) ReportAssumptions(checkpoint);
    return checkpoint;
  }
  Require(options.given.heads == 0, "--heads: belongs to a model given by -m, whose files do not say it");
  PrintMessage("qkv: no -m MODEL given: the built-in digit classifier answers (0-9, 28x28 grey)\n");
  return model::Checkpoint::FromBytes(builtin::DigitsConfig(), builtin::DigitsWeights(), "built-in digits");
}

void RequireProportion(const model::Checkpoint& checkpoint, const ModelOptions& options) {
  if (!options.size.empty()) return;
  const model::VitConfig& c = checkpoint.description.config;
  model::RequireProportion(model::Cost(c, c.image_height, c.image_width),
                           static_cast<double>(checkpoint.tensors->bytes()),
                           "an image at the size that the checkpoint asks for", "give another --size");
}

model::Model LoadModel(const ModelOptions& options) {
  if (options.threads > 0) SetNumThreads(options.threads);
  return LoadModel(OpenCheckpoint(options), options, {.precision = ParsePrecision(options.dtype)});
}

model::Model LoadModel(const model::Checkpoint& checkpoint, const ModelOptions& options,
                       const model::BuildOptions& build) {
  model::Model model(checkpoint, build, CacheOf(options));
  if (!options.size.empty()) {
    const auto [height, width] = ParseSize(options.size);
    model.SetInputSize(height, width);
  }
  return model;
}

std::string_view NameOf(simd::Precision precision) {
  switch (precision) {
    case simd::Precision::kFloat32:
      return "fp32";
    case simd::Precision::kBfloat16:
      return "bf16";
    case simd::Precision::kInt8:
      return "int8";
  }
  return "?";
}

simd::Precision ParsePrecision(std::string_view name) {
  using simd::Precision;
  if (name == "auto") {
    return simd::Describe(Precision::kBfloat16).native ? Precision::kBfloat16 : Precision::kFloat32;
  }
  for (const Precision precision : {Precision::kFloat32, Precision::kBfloat16, Precision::kInt8}) {
    if (name == NameOf(precision)) return precision;
  }
  Fail("--dtype: expected fp32, bf16, int8 or auto, got \"{}\"", name);
}

std::pair<int64_t, int64_t> ParseSize(const std::string& text) {
  int64_t height = 0;
  const char* const end = text.data() + text.size();
  std::from_chars_result read = std::from_chars(text.data(), end, height);
  int64_t width = height;
  if (read.ec == std::errc() && read.ptr != end && (*read.ptr == 'x' || *read.ptr == 'X')) {
    read = std::from_chars(read.ptr + 1, end, width);
  }
  Require(read.ec == std::errc() && read.ptr == end && height > 0 && width > 0 && height <= 1 << 16 && width <= 1 << 16,
          "--size: expected HEIGHTxWIDTH such as 224x160, got \"{}\"", text);
  return {height, width};
}

std::vector<int64_t> ParseList(const std::string& text, int64_t first, int64_t last, const std::string& option) {
  std::vector<int64_t> numbers;
  if (text == "all") {
    for (int64_t i = first; i <= last; ++i) numbers.push_back(i);
    return numbers;
  }
  const char *at = text.data(), *const end = text.data() + text.size();
  while (at != end) {
    int64_t number = 0;
    const auto [after, error] = std::from_chars(at, end, number);
    Require(error == std::errc() && (after == end || (*after == ',' && after + 1 != end)) && number >= first &&
                number <= last,
            "{}: expected numbers from {} to {} separated by commas, or all, got \"{}\"", option, first, last, text);
    if (std::find(numbers.begin(), numbers.end(), number) == numbers.end()) numbers.push_back(number);
    at = after == end ? end : after + 1;
  }
  return numbers;
}

const std::map<std::string, DType>& StoredTypes() {
  static const std::map<std::string, DType> types = {
      {"fp32", DType::kF32}, {"fp16", DType::kF16}, {"bf16", DType::kBF16}};
  return types;
}

}  // namespace qkv::cli
