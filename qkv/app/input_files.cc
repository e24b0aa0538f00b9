#include "qkv/app/input_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "qkv/app/hub.h"
#include "qkv/core/error.h"
#include "qkv/io/weights.h"
#include "qkv/model/checkpoint/tokenizer_files.h"

namespace qkv::app {
namespace fs = std::filesystem;

namespace {

bool EndsWithOneOf(const fs::path& file, std::initializer_list<std::string_view> endings) {
  const std::string name = file.filename().string();
  return std::ranges::any_of(endings, [&](std::string_view ending) { return name.ends_with(ending); });
}

// Shards have any name that an index gives them.
bool IsWeights(const fs::path& file) {
  return std::ranges::find(io::WeightFileNames(), file.filename()) != io::WeightFileNames().end() ||
         EndsWithOneOf(file, {".safetensors", ".bin", ".pth", ".pt", ".ckpt", ".pth.tar"});
}

// Configurations and tokenizers.
bool IsDescription(const fs::path& file) {
  return EndsWithOneOf(file, {".json"}) || model::IsTokenizerFile(file.filename().string());
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
  // An index names shards beside it.
  const bool all_weights = is_folder || path.string().ends_with(".index.json");
  const fs::path folder = is_folder ? path : path.parent_path();
  for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, error)) {
    if (IsDescription(entry.path()) || (all_weights && IsWeights(entry.path()))) Add(entry.path());
  }
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
  // A device or a pipe loses nothing.
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
