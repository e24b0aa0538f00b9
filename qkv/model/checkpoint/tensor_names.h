// How each library names the tensors of tensor_table.h, and the binding of a checkpoint's tensors to them.
// The names themselves are tables in families/.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/io/safetensors.h"
#include "qkv/model/checkpoint/tensor_table.h"

namespace qkv::model {

/// One tensor (or the .weight and .bias of one module) and its stored names. "{}" stands for the block's index, '@' for
/// the prefix of the base model ("vit.", "deit.", …, or nothing). Alternatives are separated by '|', the one that the
/// library writes today first; the parts of a tensor that is stored in pieces (along its first axis) by '+'.
struct NameRow {
  std::string_view canonical, stored;
};

struct Layout {
  std::span<const std::span<const NameRow>> tables;  // the first that has the tensor counts
  std::span<const std::string_view> ignored;         // tensors that inference does not read, such as mask tokens
  // Of these, tokens of shape [1, D] that the library's class wants to find all the same: conversion writes zeros.
  std::span<const std::string_view> placeholders;
};

/// The layout of a configuration: its family's, and within the family its model's.
const Layout& LayoutOf(const VitConfig& config);

/// A tensor of the table, and what it is stored in (concatenated along the first axis).
struct BoundTensor {
  TensorSpec spec;
  std::vector<const io::StoredTensor*> parts;
};

/// The one of this canonical name; null where there is none.
const BoundTensor* FindTensor(const std::vector<BoundTensor>& tensors, std::string_view canonical);

/// Its values in the table's shape. Throws Error when one is NaN or infinite: it would silently spread to every answer.
template <typename T>
Tensor<T> Read(const BoundTensor& bound);

/// Finds every tensor of the configuration, in the table's order. Strict: throws Error that names all missing,
/// misshaped and left-over tensors. Shapes are compared without extents of 1.
std::vector<BoundTensor> Bind(const VitConfig& config, const io::SafeTensors& tensors);

/// The same for any table whose tensors are stored under their own names; `model` is who has it, for messages.
std::vector<BoundTensor> Bind(std::vector<TensorSpec> table, const io::SafeTensors& tensors, std::string_view model);

/// What stands before the base model's own names in this checkpoint: "vit.", "deit.", …, or nothing.
std::string BasePrefix(const io::SafeTensors& tensors);

/// Names under which a library stores a tensor of the table today. Throws Error when it has no name for it.
std::vector<std::string> StoredNames(const Layout& layout, std::string_view prefix, std::string_view canonical);

/// Stored names of the layout's placeholders.
std::vector<std::string> PlaceholderNames(const Layout& layout, std::string_view prefix);

/// Names for a tensor of the configuration in a file whose other tensors are `tensors`: of the same prefix, and of the
/// generation that has `beside`, a tensor of the table. Throws Error when the layout has no name for it.
std::vector<std::string> NamesBeside(const VitConfig& config, const io::SafeTensors& tensors,
                                     std::string_view canonical, std::string_view beside);

/// The first tensor whose name is `suffix`, or ends with it after a dot; or null.
const io::StoredTensor* FindWithSuffix(const io::SafeTensors& tensors, std::string_view suffix);

}  // namespace qkv::model
