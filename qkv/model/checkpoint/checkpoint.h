// A checkpoint on disk or in memory: its tensors, what it says about itself, and how the two fit.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/io/safetensors.h"
#include "qkv/model/checkpoint/tensor_names.h"
#include "qkv/model/config/description.h"

namespace qkv::model {

/// A model's files, opened and checked. The tensors stay mapped while it lives.
struct Checkpoint {
  /// `path`: a folder (config.json, model.safetensors or its index, perhaps preprocessor_config.json), or a
  /// .safetensors file, whose config.json is looked for beside it. `given`: what the caller knows of a model without
  /// one. Throws Error that names the file and what is wrong with it; also when neither the files nor `given` decide
  /// what the model computes, and when another process keeps replacing the model.
  static Checkpoint Open(const std::filesystem::path& path, const Given& given = {});
  /// From memory, which must outlive the result. `where` begins the errors.
  static Checkpoint FromBytes(std::string_view config, std::span<const std::byte> weights, std::string_view where);

  /// The bound tensor of this canonical name; null where the model has none.
  const BoundTensor* Find(std::string_view canonical) const;

  std::string source;                              // the path, for messages
  std::string configuration;                       // the text of its configuration files, normalised
  Description description;                         // what the configuration says
  std::shared_ptr<const io::SafeTensors> tensors;  // as stored
  std::vector<BoundTensor> bound;                  // points into `tensors`
};

/// The values of the tensor of this canonical name; empty where the model has none. Throws Error when one is not
/// finite.
template <typename T>
Tensor<T> ReadTensor(const Checkpoint& checkpoint, std::string_view canonical) {
  const BoundTensor* bound = checkpoint.Find(canonical);
  return bound ? Read<T>(*bound) : Tensor<T>();
}

}  // namespace qkv::model
