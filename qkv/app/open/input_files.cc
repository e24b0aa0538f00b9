#include "qkv/app/open/input_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "qkv/app/open/hub.h"
#include "qkv/core/error.h"
#include "qkv/io/weights.h"
#include "qkv/model/checkpoint/model_folder.h"
#include "qkv/model/layout/tokenizer_files.h"

namespace qkv::app {
namespace fs = std::filesystem;

namespace {

constexpr std::string_view kIndex = ".index.json";

bool IsIndex(const fs::path& file) { return file.filename().string().ends_with(kIndex); }

// An index gives shards any name.
bool MayBeShard(const fs::path& file) {
  const std::string name = file.filename().string();
  return std::ranges::any_of(std::initializer_list<std::string_view>{".safetensors", ".bin", ".pth", ".pt", ".ckpt"},
                             [&](std::string_view ending) { return name.ends_with(ending); });
}

// Files that are read beside weights: configurations and tokenizers. Other .json files may be earlier results.
bool IsDescription(const fs::path& file) {
  const std::string name = file.filename().string();
  return name == model::kConfigFile || name == model::kOpenClipConfigFile || name == model::kPreprocessorFile ||
         name == model::kProcessorFile || name == model::kGenerationFile || model::IsSentenceFile(name) ||
         model::IsTokenizerFile(name);
}

}  // namespace

std::optional<InputFiles::Identity> InputFiles::ReadIdentity(const fs::path& file) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) return std::nullopt;
  return std::pair(status.st_dev, status.st_ino);
}

InputFiles::InputFiles(const std::string& model) {
  if (model.empty()) return;
  const fs::path path = FindModel(model);
  std::error_code error;
  const bool is_folder = fs::is_directory(path, error);
  if (!is_folder) Add(path);
  const fs::path parent = path.has_parent_path() ? path.parent_path() : fs::path("."),
                 folder = is_folder ? path : parent;
  std::vector<fs::path> shards;
  bool sharded = !is_folder && IsIndex(path);
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const fs::path& file = entry.path();
    const bool weights = std::ranges::find(io::WeightFileNames(), file.filename()) != io::WeightFileNames().end();
    if (IsDescription(file) || (is_folder && weights)) Add(file);
    // A module of sentence-transformers has a configuration of its own.
    if (fs::is_regular_file(file / model::kConfigFile, error)) Add(file / model::kConfigFile);
    if (MayBeShard(file)) shards.push_back(file);
    sharded |= is_folder && IsIndex(file);
  }
  if (sharded) Add(shards);
}

void InputFiles::Add(const fs::path& file) { Add(std::span(&file, 1)); }

void InputFiles::Add(std::span<const fs::path> files) {
  files_.insert(files_.end(), files.begin(), files.end());
  known_.clear();
}

void InputFiles::RequireOutput(const std::string& file) {
  if (file.empty()) return;
  const fs::path folder = fs::path(file).parent_path();
  std::error_code ignored;
  Require(folder.empty() || fs::is_directory(folder, ignored),
          "cannot write {}: there is no folder {}; create it first", file, folder.string());
  Require(!fs::is_directory(file, ignored), "cannot write {}: it is a folder; name a file in it", file);
  Require(outputs_.insert(fs::absolute(file).lexically_normal()).second,
          "cannot write {}: it would be two results in one file; name another file for one of them", file);
  // Writing to a device or a pipe loses nothing.
  const std::optional<Identity> output = fs::is_regular_file(file, ignored) ? ReadIdentity(file) : std::nullopt;
  if (!output) return;
  if (known_.empty()) {
    for (const fs::path& input : files_) {
      if (const std::optional<Identity> identity = ReadIdentity(input)) known_.emplace(*identity, &input);
    }
  }
  const auto found = known_.find(*output);
  Require(found == known_.end(), "cannot write {}: it is {}, which is read; name another file", file,
          found == known_.end() ? "" : found->second->string());
}

}  // namespace qkv::app
