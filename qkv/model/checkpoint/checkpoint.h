// A checkpoint on disk or in memory: its tensors, its description, and the binding between both.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/io/safetensors.h"
#include "qkv/model/config/description.h"
#include "qkv/model/layout/bound_tensor.h"
#include "qkv/model/layout/config_files.h"

namespace qkv::model {

/// The files of a model, opened and checked. The tensors stay mapped as long as it exists.
struct Checkpoint {
  /// path: a folder (config.json, weights as io::OpenWeights finds them, perhaps preprocessor_config.json), or a file
  /// of weights by safetensors or PyTorch, with config.json in the same folder. given: what the caller knows about a
  /// model without config.json. Throws Error that names the file and what is wrong with it; also if neither the files
  /// nor `given` determine the computation, and if another process keeps replacing the model.
  static Checkpoint Open(const std::filesystem::path& path, const ModelHints& given = {});
  /// From memory, which must outlive the result. where: prefix of error messages.
  static Checkpoint FromBytes(std::string_view config, std::span<const std::byte> weights, std::string_view where);

  /// The bound tensor of this canonical name of the image encoder; null if the model has none.
  const BoundTensor* Find(std::string_view canonical) const;

  std::string source;                            // the path, for messages
  std::string configuration;                     // text of the configuration files, normalised
  ConfigFiles files;                             // the configuration files, completed by what the caller gave
  Description description;                       // content of the configuration
  std::shared_ptr<const io::TensorSet> tensors;  // as stored, without prefixes that wrappers gave all of them
  std::vector<BoundTensor> bound;                // of the image encoder; points into `tensors`
  std::vector<BoundTensor> text;                 // of the text encoder, if description.text
  std::vector<BoundTensor> decoder;              // of the decoder, if description.decoder
};

/// Values of the tensor of this canonical name; empty if the model has none. Throws Error if a value is not finite.
template <typename T>
Tensor<T> ReadTensor(const Checkpoint& checkpoint, std::string_view canonical) {
  const BoundTensor* bound = checkpoint.Find(canonical);
  return bound ? Read<T>(*bound) : Tensor<T>();
}

}  // namespace qkv::model
