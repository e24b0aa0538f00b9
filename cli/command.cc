#include "cli/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "cli/output.h"
#include "qkv/core/memory.h"
#include "qkv/core/parallel.h"

namespace qkv::cli {
namespace {

constexpr const char* kCacheVerify = "verify";

constexpr std::string_view kFiles = "Model files, and what they may leave out", kComputing = "Computing";

}  // namespace

void ModelOptions::AddModel(Command command, bool required) {
  constexpr std::string_view kWhat =
      "Folder, file of weights by safetensors or PyTorch, or name of a model in the Hugging Face hub's cache";
  const Option model = command.AddOption(
      "-m,--model", [this](const std::string& text) { path = app::FindModel(text).string(); },
      required ? std::string(kWhat) : fmt::format("{}; without it the built-in digit classifier answers", kWhat));
  model.TypeName("MODEL");
  if (required) model.Required();
  AddHints(command);
  command
      .AddOption("--labels", &labels,
                 "Names of the classes, instead of the model's own: one a line, a JSON list or object, or CSV")
      .TypeName("FILE")
      .Group(kFiles);
  AddMaxMemory(command);
  AddStrict(command);
}

void ModelOptions::AddStrict(Command command) {
  command.AddFlag("--strict", &strict, "Fail if a file of the model has a setting that qkv does not know")
      .Group(kFiles);
}

void ModelOptions::AddHints(Command command) {
  const auto add = [&](std::string_view name, Target target, std::string_view type, std::string_view text) {
    return command.AddOption(name, std::move(target), text).TypeName(type).Group(kFiles);
  };
  add("--architecture", &given.architecture, "NAME",
      "timm's name of the architecture, or a known model's, such as uni2-h or paige-ai/Virchow2");
  add(
      "--set", [this](const std::string& text) { model::AddSetting(text, &given); }, "KEY=VALUE",
      "A setting in the words of timm's model_args or of config.json, such as act_layer=SiLU; once for each")
      .Repeatable();
  add("--heads", &given.heads, "N", "Attention heads, where neither config.json nor the tensors tell them")
      .Range(1, 1 << 20);
  add(
      "--mean", [this](const std::string& text) { given.mean = app::ParseNumbers(text, "--mean"); }, "R,G,B",
      "Mean of the pixels' values between 0 and 1, one number or one per channel");
  add(
      "--std", [this](const std::string& text) { given.std = app::ParseNumbers(text, "--std"); }, "R,G,B",
      "Their standard deviation");
  add("--crop-pct", &given.crop_pct, "F", "Part of the resized image that is kept, such as 0.9").Range(0.01, 1.0);
  add("--state-dict", &given.state_dict, "NAME",
      "Dictionary of a PyTorch file that holds several, such as model or model_ema");
}

void ModelOptions::AddPrecision(Command command) {
  command
      .AddOption(
          "--dtype",
          [this](const std::string& text) {
            build.precision = app::ParsePrecision(text, "--dtype");
            has_dtype = true;
          },
          "Precision of the linear layers and attention's products (default: fp32); auto: bf16 where the processor is "
          "faster in it, else fp32")
      .OneOf({"fp32", "bf16", "int8", "auto"})
      .Group(kComputing);
  command.AddOption("--threads", &threads, "Threads (default: all cores)")
      .Range(1, 1024)
      .TypeName("N")
      .Group(kComputing);
}

void ModelOptions::AddCompute(Command command) {
  AddPrecision(command);
  command
      .AddFlag(
          "--cache", {"use", kCacheVerify},
          [this](const std::string& text) {
            cache = text == kCacheVerify ? app::CachePolicy::kVerify : app::CachePolicy::kUse;
          },
          "Keep the built model on disk, so that the next start is immediate (always where QKV_CACHE is set); "
          "--cache=verify: compare checksums of the model and of what was kept first")
      .Group(kComputing);
}

void ModelOptions::AddSize(Command command) {
  command
      .AddOption(
          "--size", [this](const std::string& text) { size = app::ParseSize(text, "--size"); },
          "Input size, instead of the checkpoint's own, or native: each image's, in whole patches; positions are "
          "interpolated")
      .TypeName("HxW|native")
      .Group(kImagesGroup);
}

void AddQuiet(Command command, bool* quiet) {
  command.AddFlag(
      "-q,--quiet",
      [quiet](int64_t) {
        *quiet = true;
        SilenceNotes();
      },
      "No progress line, and no notes on stderr; warnings and files that were left out are told all the same");
}

void AddMaxMemory(Command command) {
  command
      .AddBytes(
          "--max-memory",
          [](uint64_t bytes) { SetMemoryLimit(static_cast<int64_t>(std::min<uint64_t>(bytes, INT64_MAX))); },
          "Refuse work that is estimated to need more memory, such as 4GB (default: half of the machine's)")
      .TypeName("SIZE")
      .Group(kComputing);
}

app::InputFiles InputsOf(const ModelOptions& options) {
  app::InputFiles inputs(options.path);
  if (!options.labels.empty()) inputs.Add(options.labels);
  return inputs;
}

app::AnyModel OpenModel(const ModelOptions& options, bool tell) {
  if (options.threads > 0) SetNumThreads(options.threads);
  if (options.path.empty()) {
    Require(options.given.heads == 0, "--heads: belongs to a model given by -m, whose files do not say it");
    Require(options.labels.empty(), "--labels: belongs to a model given by -m");
    Require(options.given.state_dict.empty(), "--state-dict: belongs to a PyTorch file given by -m");
    Require(
        !options.given.configure(),
        "--architecture, --set, --mean, --std, --crop-pct: belong to a model given by -m, whose files do not say it");
    PrintNote("the built-in digit classifier answers (0-9, 28x28 grey); -m names another model");
  }
  app::AnyModel model(options, tell ? app::Note(PrintNote) : app::Note());
  if (options.strict) io::RequireKnown(model.Settings());
  return model;
}

const std::map<std::string, DType>& StoredTypes() {
  static const std::map<std::string, DType> types = {
      {"fp32", DType::kF32}, {"fp16", DType::kF16}, {"bf16", DType::kBF16}};
  return types;
}

}  // namespace qkv::cli
