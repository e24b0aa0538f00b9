// Opens a model of several files consistently, while another process may replace it.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/core/file.h"
#include "qkv/io/json.h"
#include "qkv/io/safetensors.h"

namespace qkv::model {

/// What wrappers put before all names: DataParallel, torch.compile, averages, training loops, self-supervision. What
/// lies beside the names with it is not of the model.
inline constexpr std::string_view kWrapperPrefixes[] = {"module.",  "_orig_mod.", "model.",     "net.",
                                                        "network.", "backbone.",  "teacher.",   "student.",
                                                        "ema.",     "ema_model.", "timm_model."};

/// The files of a model at one moment: identity of the folder, stamps of the files.
struct ModelState {
  uint64_t device = 0, inode = 0;
  std::vector<std::optional<FileStamp>> files;

  bool operator==(const ModelState&) const = default;
};

/// The state of a folder, or of the folder of a file of weights. Throws Error if it does not exist.
ModelState ReadModelState(const std::filesystem::path& path);

/// True if `before` is still the state of `path`, and `tensors` belong to its files.
bool IsSameModel(const std::filesystem::path& path, const ModelState& before, const io::TensorSet& tensors);

/// Calls open(), whose result has `tensors`, and calls it again if the model was replaced meanwhile. So the weights of
/// one model are never combined with the configuration of another. Throws Error if the model is replaced a second time.
template <typename Open>
auto OpenWhole(const std::filesystem::path& path, const Open& open) {
  const ModelState first = ReadModelState(path);
  try {
    auto opened = open();
    if (IsSameModel(path, first, *opened.tensors)) return opened;
  } catch (const std::exception&) {
    // Files of two different models rarely fit together; report an error only if the model did not change meanwhile.
    if (ReadModelState(path) == first) throw;
  }
  const ModelState second = ReadModelState(path);
  auto opened = open();
  Require(IsSameModel(path, second, *opened.tensors),
          "{}: another process replaced the model while it was opened; try again", path.string());
  return opened;
}

/// Throws Error if there is nothing at a model's path.
void RequireModelExists(const std::filesystem::path& path);

/// The JSON document of an optional file. Throws Error as ReadJson, also for a link to a missing file.
std::optional<io::Json> ReadOptionalJson(const std::filesystem::path& path);

}  // namespace qkv::model
