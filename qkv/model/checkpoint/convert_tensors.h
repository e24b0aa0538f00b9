// The tensors of a conversion: changes type, splits and names, and where positions are stored.
#pragma once

#include <cstddef>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "qkv/core/dtype.h"
#include "qkv/io/safetensors.h"
#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/model/config/vit_config.h"

namespace qkv::model {

/// Tensors ready to be written, and the memory of those that the checkpoint does not own.
struct TensorList {
  std::vector<io::StoredTensor> tensors;
  std::deque<std::vector<std::byte>> memory;
};

/// Values as a tensor to be written, in the list's memory. Throws Error that names the tensor if a finite number would
/// become infinite.
io::StoredTensor StoreAs(const std::string& name, const Tensor<double>& values, DType dtype, TensorList* list);

/// Splits the tensor along its first axis into one equal piece per name, and appends the pieces to `out`.
void AddParts(const io::StoredTensor& tensor, const std::vector<std::string>& names,
              std::vector<io::StoredTensor>* out);

/// Every tensor of a checkpoint's files under its stored name. Throws Error that names the tensor if a finite number
/// would become infinite.
TensorList SameTensors(const io::TensorSet& tensors, std::optional<DType> dtype);

/// As SameTensors, but with attention as separate queries, keys and values, under the family's own names. Throws Error
/// likewise, and with SeparationObstruction.
TensorList SeparateTensors(const Checkpoint& checkpoint, std::optional<DType> dtype);

/// The tensors of `target`, a configuration equivalent to the checkpoint's, split and named as its library stores them.
/// prefix: of its base model. If the target gives positions to fewer tokens, positions are added to the tokens; if to
/// more, their positions are zero. Throws Error likewise, and for a tensor that the checkpoint lacks.
TensorList TranslatedTensors(const Checkpoint& checkpoint, const VitConfig& target, std::string_view prefix,
                             std::optional<DType> dtype);

}  // namespace qkv::model
