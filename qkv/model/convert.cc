#include "qkv/model/convert.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <map>

#include "qkv/core/file.h"
#include "qkv/io/safetensors.h"
#include "qkv/model/convert_tensors.h"
#include "qkv/model/separate.h"
#include "qkv/model/translate.h"

namespace qkv::model {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWeights = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kPreprocessor = "preprocessor_config.json";
constexpr const char* kConfig = "config.json";

// Everything that will be written, complete before the first byte is.
struct Plan {
  TensorList weights;
  std::map<std::string, std::string> metadata;
  std::map<std::string, std::string> texts;  // by file name
  std::vector<std::string> notes;
};

std::string ToText(const auto& json) { return json.dump(2) + "\n"; }

// As a Hugging Face configuration writes it.
std::string_view TorchName(DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return "float16";
    case DType::kBF16:
      return "bfloat16";
    case DType::kF64:
      return "float64";
    default:
      return "float32";
  }
}

Translation Translate(const Description& description, Family layout) {
  Require(
      layout != Family::kVitPytorch,
      "convert: {} ({}) cannot be written for vit-pytorch:\n  vit-pytorch's ViT has a LayerNorm on each side of the "
      "patch projection, and no biases on queries, keys and values",
      description.config.architecture, Name(description.config.family));
  Translation translation =
      layout == Family::kTimm ? TranslateToTimm(description) : TranslateToHuggingFace(description);
  if (description.dark_background) {
    translation.config["qkv_background"] = "dark";
    translation.notes.push_back(
        fmt::format("{} does not invert images of a bright background, as qkv does for this model", Name(layout)));
  }
  return translation;
}

// The folder that a checkpoint's configuration was read from; empty for one that came from memory.
fs::path FolderOf(const Checkpoint& checkpoint) {
  const fs::path source = checkpoint.source;
  std::error_code ignored;
  if (!fs::exists(source, ignored)) return {};
  if (fs::is_directory(source, ignored)) return source;
  return source.has_parent_path() ? source.parent_path() : ".";
}

// config.json as it is, but for the type that Hugging Face notes there.
std::string SameConfig(const fs::path& path, std::optional<DType> dtype) {
  std::string text = ReadFile(path);
  if (!dtype) return text;
  auto config = nlohmann::ordered_json::parse(text);
  bool changed = false;
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (!config.contains(key)) continue;
    config[key] = TorchName(*dtype);
    changed = true;
  }
  return changed ? ToText(config) : text;
}

Plan PlanSame(const Checkpoint& checkpoint, std::optional<DType> dtype) {
  Plan plan;
  const fs::path folder = FolderOf(checkpoint);
  if (!folder.empty() && fs::exists(folder / kConfig)) {
    plan.texts[kConfig] = SameConfig(folder / kConfig, dtype);
    if (fs::exists(folder / kPreprocessor)) plan.texts[kPreprocessor] = ReadFile(folder / kPreprocessor);
  } else {
    Translation translation = Translate(checkpoint.description, checkpoint.description.config.family);
    plan.texts[kConfig] = ToText(translation.config);
    if (!translation.preprocessor.is_null()) plan.texts[kPreprocessor] = ToText(translation.preprocessor);
    plan.notes = std::move(translation.notes);
    for (const std::string& assumption : checkpoint.description.assumptions) {
      plan.notes.push_back("config.json was written from an assumption: " + assumption);
    }
  }
  plan.weights = SameTensors(checkpoint, dtype);
  plan.metadata = checkpoint.tensors->metadata();
  return plan;
}

Plan PlanTranslated(const Checkpoint& checkpoint, Family layout, std::optional<DType> dtype) {
  Translation translation = Translate(checkpoint.description, layout);
  std::optional<io::Json> preprocessor;
  if (!translation.preprocessor.is_null()) preprocessor = translation.preprocessor;
  // What the configuration means is left to its reader, so that writer and reader cannot disagree.
  const VitConfig target = Describe(translation.config, preprocessor, io::SafeTensors()).config;
  const std::vector<std::string> differences = Differences(AsSeparate(checkpoint.description.config), target);
  Require(differences.empty(), "convert: {} ({}) cannot be written for {}: {} would differ",
          checkpoint.description.config.architecture, Name(checkpoint.description.config.family), Name(layout),
          fmt::join(differences, ", "));

  Plan plan;
  plan.weights = TranslatedTensors(checkpoint, target, translation.prefix, dtype);
  plan.metadata = {{"format", "pt"}};
  if (layout == Family::kHuggingFace) translation.config["dtype"] = TorchName(plan.weights.tensors.front().dtype);
  plan.texts[kConfig] = ToText(translation.config);
  if (preprocessor) plan.texts[kPreprocessor] = ToText(*preprocessor);
  plan.notes = std::move(translation.notes);
  return plan;
}

// Its own layout, with queries, keys and values as its own library has them.
Plan PlanSeparate(const Checkpoint& checkpoint, std::optional<DType> dtype) {
  const VitConfig& config = checkpoint.description.config;
  const std::string obstruction = WhyNotSeparate(config);
  Require(obstruction.empty(), "convert: {} ({}) cannot be written for {}:\n  {} has no {} attention: {}",
          config.architecture, Name(config.family), Name(config.family), Name(config.family), Name(config.attention),
          obstruction);
  Plan plan = PlanSame(checkpoint, dtype);
  auto json = nlohmann::ordered_json::parse(plan.texts.at(kConfig));
  json.erase("qkv_attention");
  json.erase("qkv_attention_rank");
  plan.texts[kConfig] = ToText(json);
  plan.weights = SeparateTensors(checkpoint, dtype);
  return plan;
}

void WritePlan(const Plan& plan, const fs::path& folder) {
  io::WriteSafeTensors(folder / kWeights, plan.weights.tensors, plan.metadata);
  for (const auto& [name, text] : plan.texts) {
    if (name != kConfig) WriteFile(folder / name, text);
  }
  WriteFile(folder / kConfig, plan.texts.at(kConfig));
}

// A folder beside the one that is wanted, removed with what is in it unless it was moved there.
class WorkFolder {
 public:
  explicit WorkFolder(const fs::path& target) : target_(target) {
    if (!target.has_filename()) target_ = target.parent_path();  // "out/"
    path_ = target_;
    path_ += fmt::format(".part-{}", ::getpid());
    std::error_code error;
    if (target_.has_parent_path()) fs::create_directories(target_.parent_path(), error);
    if (!error) fs::create_directory(path_, error);
    Require(!error, "cannot create folder {}: {}", path_.string(), error.message());
  }
  ~WorkFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  const fs::path& path() const { return path_; }

  /// The folder becomes the target, which is missing or empty; or else its files replace the target's.
  void Publish() {
    std::error_code error;
    fs::rename(path_, target_, error);
    if (!error) return;
    Require(fs::is_directory(target_), "cannot write {}: {}", target_.string(), error.message());
    fs::remove(target_ / kConfig);  // while files are exchanged, this is no model
    for (const char* name : {kWeights, kPreprocessor, kConfig}) {
      fs::remove(target_ / name);
      if (fs::exists(path_ / name)) fs::rename(path_ / name, target_ / name);
    }
    fs::remove(target_ / kIndex);
  }

 private:
  fs::path target_, path_;
};

void RequireWritable(const fs::path& folder, bool force) {
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) return;
  Require(fs::is_directory(folder, ignored), "convert: {} is there and is no folder", folder.string());
  Require(force || fs::is_empty(folder, ignored), "convert: folder {} is not empty; --force replaces the model in it",
          folder.string());
}

}  // namespace

Converted Convert(const Checkpoint& checkpoint, const fs::path& folder, const ConvertOptions& options) {
  RequireWritable(folder, options.force);
  Require(!options.dtype || *options.dtype == DType::kF32 || *options.dtype == DType::kF16 ||
              *options.dtype == DType::kBF16,
          "convert: cannot write {}, expected F32, F16 or BF16", Name(options.dtype.value_or(DType::kF32)));
  const Family own = checkpoint.description.config.family, layout = options.layout.value_or(own);
  const bool expand = options.layout && checkpoint.description.config.attention != nn::AttentionKind::kSeparate;
  Plan plan = layout != own ? PlanTranslated(checkpoint, layout, options.dtype)
              : expand      ? PlanSeparate(checkpoint, options.dtype)
                            : PlanSame(checkpoint, options.dtype);

  try {
    WorkFolder work(folder);
    WritePlan(plan, work.path());
    Checkpoint::Open(work.path());  // throws when qkv cannot read what it wrote
    work.Publish();
  } catch (const fs::filesystem_error& error) {
    Fail("cannot write {}: {}", folder.string(), error.code().message());
  }
  Converted result{layout, plan.weights.tensors.size(), 0, std::move(plan.notes)};
  for (const io::StoredTensor& tensor : plan.weights.tensors) result.bytes += tensor.bytes.size();
  return result;
}

}  // namespace qkv::model
