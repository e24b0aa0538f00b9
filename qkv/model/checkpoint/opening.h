// Opening a model of several files while another process may put another model in its place.
#pragma once

#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/core/file.h"
#include "qkv/io/json.h"
#include "qkv/io/safetensors.h"

namespace qkv::model {

/// Which files a model consists of at a moment: of its folder the identity, of its files the stamps.
struct ModelState {
  uint64_t device = 0, inode = 0;
  std::vector<std::optional<FileStamp>> files;

  bool operator==(const ModelState&) const = default;
};

/// The state of a folder, or of the folder of a .safetensors file. Throws Error when there is none.
ModelState StateOf(const std::filesystem::path& path);

/// Whether `before` is still the state of `path`, and `tensors` are those of its files.
bool IsSameModel(const std::filesystem::path& path, const ModelState& before, const io::SafeTensors& tensors);

/// What open() returns, which has `tensors`; opened once more when the model was replaced meanwhile, so that the
/// weights of one model never meet the configuration of another. Throws Error when it was replaced again.
template <typename Open>
auto OpenWhole(const std::filesystem::path& path, const Open& open) {
  const ModelState first = StateOf(path);
  try {
    auto opened = open();
    if (IsSameModel(path, first, *opened.tensors)) return opened;
  } catch (const std::exception&) {
    // Files of two models seldom fit together: that they do not is no news before the second look.
    if (StateOf(path) == first) throw;
  }
  const ModelState second = StateOf(path);
  auto opened = open();
  Require(IsSameModel(path, second, *opened.tensors),
          "{}: another process replaced the model while it was opened; try again", path.string());
  return opened;
}

/// The JSON document of a file that may be absent. Throws Error as ReadJson: also for a link to a file that is missing.
std::optional<io::Json> ReadOptionalJson(const std::filesystem::path& path);

}  // namespace qkv::model
