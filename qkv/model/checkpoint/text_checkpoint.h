// A text model on disk: its description, its tensors, and the binding between both.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "qkv/io/tensor_set.h"
#include "qkv/model/config/text_description.h"
#include "qkv/model/layout/bound_tensor.h"

namespace qkv::model {

struct TextCheckpoint {
  /// path: a folder with config.json of a family of texts (families/text_families.cc) and weights as io::OpenWeights
  /// finds them, or a file of weights in such a folder. generation_config.json and the modules.json of
  /// sentence-transformers are read if they are there. Strict, as Checkpoint::Open, with the same errors.
  static TextCheckpoint Open(const std::filesystem::path& path);

  std::string source;                            // the path, for messages
  std::string configuration;                     // text of the configuration files, normalised
  TextDescription description;                   // content of the configuration
  std::shared_ptr<const io::TensorSet> tensors;  // as stored
  std::vector<BoundTensor> encoder, decoder;     // of the parts, in the tables' orders; points into `tensors`
};

/// The configurations of the modules that modules.json of this folder names, relative to it: "1_Pooling/config.json".
std::vector<std::string> ModuleFiles(const std::filesystem::path& folder);

}  // namespace qkv::model
