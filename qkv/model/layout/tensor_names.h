// The names under which libraries store the tensors of tensor_table.h, and the rules to resolve them. Not here: the
// names themselves, which are tables in families/.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/io/tensor_set.h"

namespace qkv::model {

/// One tensor (or the .weight and .bias of one module) and its stored names. "{}" stands for the block's index, '@' for
/// the prefix of the base model ("vit.", "deit.", …, or nothing). '|' separates alternatives, first the one that the
/// library writes today; '+' separates the parts of a tensor that is stored in pieces along its first axis. A part
/// named kZeroPart is not stored: it is zero.
/// A tensor may also be stored inside another, or turned: "NAME[1:3/3]" stands for the second and third of three equal
/// pieces of NAME along its first axis, "NAME[,1:3/3]" along the second, "^NAME" for the transposed matrix. Conversion
/// does not write such layouts.
struct NameRow {
  std::string_view canonical, stored;
};

inline constexpr std::string_view kZeroPart = "0";

struct Layout {
  std::span<const std::span<const NameRow>> tables;  // the first table with the tensor applies
  // Tensors that inference does not read, such as mask tokens; "decoder.*": all whose names begin so; "*.index": end.
  std::span<const std::string_view> ignored;
  // Ignored tokens of shape [1, D], or [1, 1, D], that the library's class still expects: conversion writes zeros.
  std::span<const std::string_view> placeholders;
  int placeholder_rank = 2;
};

/// Where a tensor is within a stored one.
struct Extract {
  int64_t begin = 0, end = 1, pieces = 1;  // pieces [begin, end) of equal pieces along the first axis, or the second
  bool transposed = false, columns = false;

  bool whole() const { return pieces == 1 && !transposed; }
};

/// One way to store a tensor: names of its parts, and where it is within the only part.
struct Alternative {
  std::vector<std::string> parts;
  Extract extract = {};
};

/// All ways in which a library stores the tensor of this name, the one that it writes today first. Throws Error if the
/// layout has no name for it.
std::vector<Alternative> FindAlternatives(const Layout& layout, std::string_view prefix, std::string_view canonical);

/// A stored name of a layout, with the prefix of the base model in place of '@'.
std::string WithPrefix(std::string_view stored, std::string_view prefix);

/// What precedes the first of these names that a tensor has or ends with; nothing if none is there.
std::string PrefixBefore(const io::TensorSet& tensors, std::span<const std::string_view> anchors);
/// Prefix of the base model's names in this checkpoint: "vit.", "deit.", "vision_model.", "visual.trunk.", …, or
/// nothing.
std::string BasePrefix(const io::TensorSet& tensors);
/// Prefix of the text encoder's names: "text_model.", "text.", or nothing. In its layout it stands for '@'.
std::string TextPrefix(const io::TensorSet& tensors);

/// Names under which a library stores a tensor of the table today. Throws Error if it has no name for it.
std::vector<std::string> StoredNames(const Layout& layout, std::string_view prefix, std::string_view canonical);

/// Stored names of the layout's placeholders.
std::vector<std::string> PlaceholderNames(const Layout& layout, std::string_view prefix);

/// Names for a tensor of the layout to add to a file that holds `tensors`: with the same prefix, and of the same
/// library generation as `beside`, a tensor of the table. Throws Error if the layout has no name for it.
std::vector<std::string> NamesBeside(const Layout& layout, const io::TensorSet& tensors, std::string_view canonical,
                                     std::string_view beside);

/// The first tensor named `suffix`, or whose name ends with "." and `suffix`; or null.
const io::StoredTensor* FindWithSuffix(const io::TensorSet& tensors, std::string_view suffix);

}  // namespace qkv::model
