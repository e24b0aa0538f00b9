#include "qkv/model/checkpoint/convert.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "qkv/core/file.h"
#include "qkv/io/weights.h"
#include "qkv/model/checkpoint/convert_tensors.h"
#include "qkv/model/checkpoint/separate.h"
#include "qkv/model/config/separation.h"
#include "qkv/model/families/describe.h"
#include "qkv/model/families/families.h"
#include "qkv/model/layout/config_files.h"
#include "qkv/model/layout/tokenizer_files.h"
#include "qkv/model/layout/translation.h"

namespace qkv::model {
namespace {

namespace fs = std::filesystem;

std::string ToText(const auto& json) { return json.dump(2) + "\n"; }

// The type's name in a Hugging Face configuration.
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

// Adds qkv's own key to the library's keys.
Translation TranslateWithBackground(const Description& description, Family layout) {
  Translation translation = Translate(description, layout);
  if (description.dark_background) {
    translation.config["qkv_background"] = "dark";
    translation.notes.push_back(
        fmt::format("{} does not invert images of a bright background, as qkv does for this model", Name(layout)));
  }
  return translation;
}

// The folder of a checkpoint's configuration; empty for a checkpoint from memory.
fs::path SourceFolder(const fs::path& source) {
  std::error_code ignored;
  if (!fs::exists(source, ignored)) return {};
  if (fs::is_directory(source, ignored)) return source;
  return source.has_parent_path() ? source.parent_path() : ".";
}

// Files that make ids of texts, and settings of generation.
std::vector<fs::path> TokenizerFiles(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& file : fs::directory_iterator(folder)) {
    const std::string name = file.path().filename().native();
    const bool taken = IsTokenizerFile(name) || name == kGenerationFile;
    if (taken && file.is_regular_file()) files.push_back(file.path());
  }
  std::ranges::sort(files);
  return files;
}

// config.json unchanged, except for the type that Hugging Face records there.
std::string SameConfig(const std::string& text, std::optional<DType> dtype) {
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

void RequireWritten(std::optional<DType> dtype) {
  Require(!dtype || *dtype == DType::kF32 || *dtype == DType::kF16 || *dtype == DType::kBF16,
          "convert: cannot write {}, expected F32, F16 or BF16", Name(dtype.value_or(DType::kF32)));
}

ModelFiles TranslatedFiles(const Checkpoint& checkpoint, Family layout, std::optional<DType> dtype) {
  RequireKnownPreprocess(checkpoint.description);
  Translation translation = TranslateWithBackground(checkpoint.description, layout);
  if (checkpoint.description.decoder) {
    translation.notes.push_back("the decoder is left out: this is the image encoder alone");
  }
  std::optional<io::Json> preprocessor;
  if (!translation.preprocessor.is_null()) preprocessor = translation.preprocessor;
  // Reads the written configuration back, so that writer and reader cannot disagree.
  const VitConfig target = Describe(translation.config, preprocessor, io::SafeTensors()).config;
  const VitConfig& config = checkpoint.description.config;
  const VitConfig wanted = HasKind(layout, config.block.attention.kind) ? config : AsSeparate(config);
  const std::vector<std::string> differences = Differences(wanted, target);
  Require(differences.empty(), "convert: {} ({}) cannot be written for {}: {} would differ",
          checkpoint.description.config.architecture, Name(checkpoint.description.config.family), Name(layout),
          fmt::join(differences, ", "));

  ModelFiles files;
  files.weights = TranslatedTensors(checkpoint, target, translation.prefix, dtype);
  files.metadata = {{"format", "pt"}};
  if (translation.names_dtype) translation.config["dtype"] = TorchName(files.weights.tensors.front().dtype);
  files.texts[kConfigFile] = ToText(translation.config);
  if (preprocessor) files.texts[kPreprocessorFile] = ToText(*preprocessor);
  files.notes = std::move(translation.notes);
  return files;
}

// The checkpoint's own layout, with separate queries, keys and values as its library stores them.
ModelFiles SeparateFiles(const Checkpoint& checkpoint, std::optional<DType> dtype) {
  const VitConfig& config = checkpoint.description.config;
  const std::string obstruction = SeparationObstruction(config);
  Require(obstruction.empty(), "convert: {} ({}) cannot be written for {}:\n  {} has no {} attention: {}",
          config.architecture, Name(config.family), Name(config.family), Name(config.family),
          Name(config.block.attention.kind), obstruction);
  ModelFiles files = SameFiles(checkpoint, dtype);
  std::string& text = ConfigText(files);
  auto json = nlohmann::ordered_json::parse(text);
  SetOwnKeys(AsSeparate(config), &json);
  text = ToText(json);
  files.weights = SeparateTensors(checkpoint, dtype);
  return files;
}

// Names of classes that the files do not have, in the keys of the family.
std::string WithLabels(const std::string& text, const Description& description) {
  auto config = nlohmann::ordered_json::parse(text);
  io::Json names;
  FindFamily(description.config).write_labels(description, &names);
  for (const auto& [key, value] : names.items()) config[key] = value;
  config.erase("label_descriptions");
  return ToText(config);
}

}  // namespace

ModelFiles SameFiles(const Checkpoint& checkpoint, std::optional<DType> dtype) {
  ModelFiles files;
  const ConfigFiles& known = checkpoint.files;
  const std::string name = known.stored ? ConfigFile(checkpoint.source).filename().string() : kConfigFile;
  if (known.stored) {
    const fs::path folder = SourceFolder(checkpoint.source);
    files.texts[name] = SameConfig(ReadFile(folder / name), dtype);
    if (fs::exists(folder / kPreprocessorFile)) {
      files.texts[kPreprocessorFile] = ReadFile(folder / kPreprocessorFile);
    } else if (known.preprocessor) {
      files.texts[kPreprocessorFile] = ToText(*known.preprocessor);
    }
  } else {
    RequireKnownPreprocess(checkpoint.description);
    files.texts[name] = SameConfig(ToText(known.config), dtype);
    if (known.preprocessor) files.texts[kPreprocessorFile] = ToText(*known.preprocessor);
    // Which values these are is said where the checkpoint is opened.
    if (!checkpoint.description.assumptions.empty()) {
      files.notes.push_back("config.json was written anew, with what was assumed");
    }
  }
  if (checkpoint.description.label_source != LabelSource::kFiles) {
    files.texts[name] = WithLabels(files.texts[name], checkpoint.description);
  }
  const fs::path folder = SourceFolder(checkpoint.source);
  const bool texts = checkpoint.description.text || checkpoint.description.decoder;
  if (texts && !folder.empty()) files.copies = TokenizerFiles(folder);
  files.weights = SameTensors(*checkpoint.tensors, dtype);
  files.metadata = checkpoint.tensors->metadata();
  files.metadata.erase(io::kTrainingKey);  // the written config.json says what it did
  return files;
}

Converted Convert(const Checkpoint& checkpoint, const fs::path& folder, const ConvertOptions& options) {
  RequireWritable(folder, options.force);
  RequireWritten(options.dtype);
  const Family own = checkpoint.description.config.family, layout = options.layout.value_or(own);
  const bool expand = options.layout && !HasKind(layout, checkpoint.description.config.block.attention.kind);
  ModelFiles files = layout != own ? TranslatedFiles(checkpoint, layout, options.dtype)
                     : expand      ? SeparateFiles(checkpoint, options.dtype)
                                   : SameFiles(checkpoint, options.dtype);
  const size_t bytes = WriteModel(files, folder, options.force);
  return {std::string(Name(layout)), files.weights.tensors.size(), bytes, std::move(files.notes)};
}

Converted Convert(const TextCheckpoint& checkpoint, const fs::path& folder, const ConvertOptions& options) {
  RequireWritable(folder, options.force);
  RequireWritten(options.dtype);
  Require(!options.layout, "convert: {} is a text model, which qkv writes in its own layout only; omit --layout",
          checkpoint.source);
  const fs::path source = SourceFolder(checkpoint.source);
  ModelFiles files;
  files.texts[kConfigFile] = SameConfig(ReadFile(source / kConfigFile), options.dtype);
  for (const fs::directory_entry& entry : fs::directory_iterator(source)) {
    const std::string name = entry.path().filename().string();
    if (IsSentenceFile(name)) files.texts[name] = ReadFile(entry.path());
  }
  for (const std::string& name : ModuleFiles(source)) files.texts[name] = ReadFile(source / name);
  files.copies = TokenizerFiles(source);
  files.weights = SameTensors(*checkpoint.tensors, options.dtype);
  files.metadata = checkpoint.tensors->metadata();
  files.metadata.erase(io::kTrainingKey);  // the written config.json says what it did
  const size_t bytes = WriteModel(files, folder, options.force);
  return {checkpoint.description.architecture, files.weights.tensors.size(), bytes, {}};
}

}  // namespace qkv::model
