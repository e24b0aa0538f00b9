#include "cli/command.h"

#include <algorithm>
#include <cstdint>

#include "cli/output.h"
#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"

namespace qkv::cli {
namespace {

constexpr const char* kCacheVerify = "verify";

}  // namespace

void ModelOptions::AddModel(Command command) {
  command
      .AddOption(
          "-m,--model", &path,
          "Folder, or file of weights by safetensors or PyTorch; without it the built-in digit classifier answers")
      .TypeName("MODEL");
  command
      .AddOption("--heads", &given.heads,
                 "Attention heads of a model without a config.json whose tensors do not determine them")
      .Range(1, 1 << 20)
      .TypeName("N");
  command
      .AddOption("--labels", &labels,
                 "Names of the classes, instead of the model's own: one a line, a JSON list or object, or CSV")
      .TypeName("FILE");
  command
      .AddOption("--state-dict", &given.state_dict,
                 "Dictionary of a PyTorch file that holds several, such as model or model_ema")
      .TypeName("NAME");
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
  command.AddFlag("--cache", {"use", kCacheVerify}, &cache,
                  "Keep the built model on disk, so that the next start is immediate (always where QKV_CACHE is set); "
                  "--cache=verify: compare checksums of the model and of what was kept first");
}

void ModelOptions::AddSize(Command command) {
  command.AddOption("--size", &size, "Input size, instead of the checkpoint's own; positions are interpolated")
      .TypeName("HxW");
}

void AddMaxMemory(Command command) {
  command
      .AddBytes(
          "--max-memory",
          [](uint64_t bytes) { SetMemoryLimit(static_cast<int64_t>(std::min<uint64_t>(bytes, INT64_MAX))); },
          "Refuse work that is estimated to need more memory, such as 4GB (default: half of the machine's)")
      .TypeName("SIZE");
}

app::ModelOptions ModelOptions::Parse() const {
  app::ModelOptions options{.path = path, .given = given, .labels = labels, .note = PrintNote};
  options.cache = cache.empty()           ? app::CachePolicy::kIfSet
                  : cache == kCacheVerify ? app::CachePolicy::kVerify
                                          : app::CachePolicy::kUse;
  if (!size.empty()) options.size = app::ParseSize(size, "--size");
  return options;
}

model::Checkpoint OpenCheckpoint(const ModelOptions& options, bool tell) {
  if (options.path.empty()) {
    Require(options.given.heads == 0, "--heads: belongs to a model given by -m, whose files do not say it");
    Require(options.labels.empty(), "--labels: belongs to a model given by -m");
    Require(options.given.state_dict.empty(), "--state-dict: belongs to a PyTorch file given by -m");
    PrintMessage("qkv: no -m MODEL given: the built-in digit classifier answers (0-9, 28x28 grey)\n");
  }
  return app::OpenCheckpoint({.path = options.path,
                              .given = options.given,
                              .labels = options.labels,
                              .note = tell ? app::Note(PrintNote) : app::Note()});
}

model::Model LoadModel(const ModelOptions& options) {
  if (options.threads > 0) SetNumThreads(options.threads);
  return LoadModel(OpenCheckpoint(options), options, {.precision = ParsePrecision(options.dtype)});
}

model::Model LoadModel(const model::Checkpoint& checkpoint, const ModelOptions& options,
                       const model::BuildOptions& build) {
  return app::BuildModel(checkpoint, options.Parse(), build);
}

simd::Precision ParsePrecision(std::string_view name) { return app::ParsePrecision(name, "--dtype"); }

const std::map<std::string, DType>& StoredTypes() {
  static const std::map<std::string, DType> types = {
      {"fp32", DType::kF32}, {"fp16", DType::kF16}, {"bf16", DType::kBF16}};
  return types;
}

}  // namespace qkv::cli
