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
#include "qkv/model/description.h"
#include "qkv/model/layout.h"

namespace qkv::model {

struct Checkpoint {
  /// `path`: a folder (config.json, model.safetensors or its index, perhaps preprocessor_config.json), or a
  /// .safetensors file, whose config.json is looked for beside it.
  /// Throws Error that names the file and what is wrong with it.
  static Checkpoint Open(const std::filesystem::path& path);
  /// From memory, which must outlive the result. `where` begins the errors.
  static Checkpoint FromBytes(std::string_view config, std::span<const std::byte> weights, std::string_view where);

  std::string source;         // the path, for messages
  std::string configuration;  // the text of its configuration files, normalised
  Description description;
  std::shared_ptr<const io::SafeTensors> tensors;
  std::vector<BoundTensor> bound;  // points into `tensors`
};

}  // namespace qkv::model
