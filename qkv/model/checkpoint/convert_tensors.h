// The tensors of a conversion: other types, other cuts, other habits of where positions are kept.
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

/// Tensors ready to be written, and the memory of those that are not a checkpoint's own.
struct TensorList {
  std::vector<io::StoredTensor> tensors;
  std::deque<std::vector<std::byte>> memory;
};

/// Values as a tensor to be written, in the list's memory. Throws Error naming the tensor when a finite number would
/// become infinite.
io::StoredTensor StoreAs(const std::string& name, const Tensor<double>& values, DType dtype, TensorList* list);

/// Adds to `out` the tensor, cut along its first axis into as many equal pieces as there are names.
void AddParts(const io::StoredTensor& tensor, const std::vector<std::string>& names,
              std::vector<io::StoredTensor>* out);

/// Every tensor of the checkpoint under its stored name.
/// Throws Error naming the tensor when a finite number would become infinite.
TensorList SameTensors(const Checkpoint& checkpoint, std::optional<DType> dtype);

/// The same with the tensors of attention as separate queries, keys and values, under the family's own names.
/// Throws Error as above, and with WhyNotSeparate.
TensorList SeparateTensors(const Checkpoint& checkpoint, std::optional<DType> dtype);

/// The tensors of `target`, a configuration that computes what the checkpoint's does, cut and named as its library
/// stores them; `prefix` is that of its base model. Where the target gives fewer tokens a position, positions are added
/// to the tokens; where it gives more, theirs are zero.
/// Throws Error as above, and for a tensor that the checkpoint has not got.
TensorList TranslatedTensors(const Checkpoint& checkpoint, const VitConfig& target, std::string_view prefix,
                             std::optional<DType> dtype);

}  // namespace qkv::model
