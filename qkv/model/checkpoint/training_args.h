// Arguments that timm's training script stores beside a model's weights: `arch` and `args` of a .pth.tar, and args.yaml
// in its folder. Not here: the files of other trainers.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "qkv/io/tensor_set.h"
#include "qkv/model/config/model_hints.h"

namespace qkv::model {

inline constexpr const char* kTrainingArgsFile = "args.yaml";

/// `given`, completed where the caller left gaps: architecture, preprocessing, and arguments of the model. The weights'
/// file has priority over args.yaml. assumptions: a sentence on what was taken, if something was. Throws Error for an
/// args.yaml that is no dictionary in YAML, and for an architecture that is known and not supported.
ModelHints CompleteByTraining(const std::filesystem::path& folder, const io::TensorSet& tensors, ModelHints given,
                              std::vector<std::string>* assumptions);

}  // namespace qkv::model
