// The content of PyTorch's pickles: dictionaries of tensors, and the storages that these lie in. Nothing is executed:
// the functions that PyTorch would call are recognised by name, and their arguments read. Internal to qkv/io; not here:
// the bytes (torch_file.h).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/core/dtype.h"
#include "qkv/core/tensor.h"
#include "qkv/io/pickle.h"

namespace qkv::io {

/// A view of a storage.
struct TorchTensor {
  std::string name;      // within its dictionary
  std::string obstacle;  // why it cannot be read, a verb first: "is quantised"; empty if it can
  DType dtype = DType::kF32;
  Shape shape;
  std::array<int64_t, Shape::kMaxRank> strides{};  // in elements, not negative
  uint64_t offset = 0;                             // of the first element, in elements
  size_t storage = 0;                              // index in TorchContents::storages

  size_t bytes() const { return static_cast<size_t>(shape.size()) * ElementSize(dtype); }
};

/// Tensors under one dictionary or module.
struct TorchDictionary {
  std::string path;  // keys that lead to it, with dots between: "model_ema"; "." for the top level
  std::vector<TorchTensor> tensors;
  std::vector<std::string> left_out;  // keys of other values
  size_t bytes() const;               // of all tensors
};

struct TorchStorage {
  std::string key;
  size_t element = 1;     // bytes
  uint64_t elements = 0;  // as many as the tensors expect
};

struct TorchContents {
  std::vector<TorchStorage> storages;         // of all tensors, also of optimisers
  std::vector<TorchDictionary> dictionaries;  // in the order of the file
  std::vector<std::string> unknown;           // classes and functions that the file asks to call, a few
  // JSON of "arch" and "args", which timm's training script stores beside the weights; empty if neither is there.
  // Values that are no numbers, texts, or lists or dictionaries of them are null.
  std::string training;
};

/// Finds the dictionaries with string keys that hold tensors, and modules, which are read by their parameters, buffers
/// and submodules. Optimisers' states are left out. Throws Error, prefixed with `where`, if the pickle asks for system
/// calls, if arguments are not those of PyTorch's functions, and for more than 2^18 tensors.
TorchContents ReadTorchContents(const Pickle& pickle, std::string_view where);

}  // namespace qkv::io
