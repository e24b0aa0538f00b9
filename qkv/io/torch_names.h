// Names that PyTorch's pickles use, and names that no file of weights should use. Internal to qkv/io/torch_pickle.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "qkv/core/dtype.h"

namespace qkv::io {

struct TorchStorageType {
  std::string_view name;
  size_t element;             // bytes
  std::optional<DType> type;  // none: qkv does not read it
};

/// The type of "torch.cuda.FloatStorage"; null if it is no known storage.
const TorchStorageType* FindTorchStorage(std::string_view global);
/// The type of "torch.float32"; none if qkv does not read it.
std::optional<DType> FindTorchType(std::string_view global);
/// Modules and functions that no file of weights needs, even beside the weights.
bool IsSystemCall(std::string_view global);
/// Objects that hold settings or numbers beside the weights.
bool IsHarmless(std::string_view global);

}  // namespace qkv::io
