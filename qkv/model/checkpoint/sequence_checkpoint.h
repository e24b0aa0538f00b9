// A sequence model on disk, as qkv train writes it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "qkv/io/safetensors.h"
#include "qkv/model/config/sequence_config.h"
#include "qkv/model/layout/bound_tensor.h"

namespace qkv::model {

/// A sequence model on disk: a folder with config.json and model.safetensors.
struct SequenceCheckpoint {
  /// Throws Error that names the file and what is wrong with it. Strict, as Checkpoint::Open.
  static SequenceCheckpoint Open(const std::filesystem::path& folder);

  std::string source;                              // the folder, for messages
  SequenceConfig config;                           // from config.json
  std::shared_ptr<const io::SafeTensors> tensors;  // as stored
  std::vector<BoundTensor> bound;                  // in the order of TensorTable; points into `tensors`
};

}  // namespace qkv::model
