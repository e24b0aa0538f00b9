#include "qkv/model/checkpoint/opening.h"

#include <system_error>

#include "qkv/core/error.h"
#include "qkv/io/weights.h"
#include "qkv/model/checkpoint/model_folder.h"
#include "qkv/model/checkpoint/training_args.h"

namespace qkv::model {
namespace fs = std::filesystem;

namespace {

// Ignores the time of the last change, which moves when a file gets another hard link, as files of a training run do.
FileStamp Identity(FileStamp stamp) {
  stamp.changed = 0;
  return stamp;
}

}  // namespace

ModelState ReadModelState(const fs::path& path) {
  std::error_code ignored;
  fs::path folder = fs::is_directory(path, ignored) ? path : path.parent_path();
  if (folder.empty()) folder = ".";
  const FileStamp stamp = ReadFileStamp(folder);
  ModelState state{stamp.device, stamp.inode, {}};
  std::vector<fs::path> files = {path,
                                 folder / kConfigFile,
                                 folder / kOpenClipConfigFile,
                                 folder / kPreprocessorFile,
                                 folder / kProcessorFile,
                                 folder / kTrainingArgsFile};
  for (const char* name : io::WeightFileNames()) files.push_back(folder / name);
  for (const char* name : io::RunFileNames()) files.push_back(folder / name);
  for (const fs::path& file : files) {
    std::optional<FileStamp>& of_file = state.files.emplace_back();
    if (fs::is_regular_file(file, ignored)) of_file = Identity(ReadFileStamp(file));
  }
  return state;
}

bool IsSameModel(const fs::path& path, const ModelState& before, const io::TensorSet& tensors) {
  if (ReadModelState(path) != before) return false;
  for (const io::TensorFile& file : tensors.files()) {
    if (!FileExists(file.path) || Identity(ReadFileStamp(file.path)) != Identity(file.mapped.stamp())) return false;
  }
  return true;
}

void RequireModelExists(const fs::path& path) {
  std::error_code error;
  const bool exists = fs::exists(path, error);
  Require(error != std::errc::too_many_symbolic_link_levels,
          "cannot open model {}: a symbolic link that leads back to itself", path.string());
  Require(exists, "cannot open model {}: no such file or folder", path.string());
}

std::optional<io::Json> ReadOptionalJson(const fs::path& path) {
  if (!FileExists(path)) return std::nullopt;
  std::error_code ignored;
  Require(fs::exists(path, ignored),
          "cannot open {}: a link to a file that is missing; remove it or bring the file back", path.string());
  return io::ReadJson(path);
}

}  // namespace qkv::model
