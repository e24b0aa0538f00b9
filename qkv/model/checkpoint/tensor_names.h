// Binds a checkpoint's tensors to those of tensor_table.h by each library's names. Not here: the names themselves,
// which are tables in families/.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/io/safetensors.h"
#include "qkv/model/checkpoint/tensor_table.h"
#include "qkv/model/config/caption_decoder.h"
#include "qkv/model/config/text_tower.h"

namespace qkv::model {

/// One tensor (or the .weight and .bias of one module) and its stored names. "{}" stands for the block's index, '@' for
/// the prefix of the base model ("vit.", "deit.", …, or nothing). '|' separates alternatives, first the one that the
/// library writes today; '+' separates the parts of a tensor that is stored in pieces along its first axis. A part
/// named kZeroPart is not stored: it is zero.
/// A tensor may also be stored inside another, or turned: "NAME[1:3/3]" stands for the second and third of three equal
/// pieces of NAME along its first axis, "^NAME" for the transposed matrix. Conversion does not write such layouts.
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

/// The layout of a configuration: determined by its family, and within the family by the model.
const Layout& GetLayout(const VitConfig& config);

/// The first `rows` rows of a tensor, in heads of `head` rows, that a file stores half-split and the table has as
/// neighbours (nn::HalfSplitToNeighbours).
struct HalfSplitRows {
  int64_t rows = 0, head = 0;  // 0: none
};

/// Those of a tensor of this canonical name, if the configuration has rotary_halves.
HalfSplitRows FindHalfSplitRows(const VitConfig& config, std::string_view canonical);
HalfSplitRows FindHalfSplitRows(const SequenceConfig& config, std::string_view canonical);

/// The first `rows` rows of a tensor are those of the file multiplied by `factor`.
struct ScaledRows {
  int64_t rows = 0;  // 0: none
  double factor = 1;
};

/// The queries' of a tensor of this canonical name, if the configuration has SequenceConfig::unscaled_scores: the
/// factor 1/√E that attention will apply is taken back.
ScaledRows FindScaledRows(const SequenceConfig& config, std::string_view canonical);

/// Tables of rows [first, patches, last] in a file that are [first, last, patches] in the table.
struct LastTokens {
  int64_t first = 0, patches = 0, last = 0;  // last: 0: none

  int64_t rows() const { return first + patches + last; }  // of a table
};

/// Those of a tensor of this canonical name: positions of detection tokens, which precede the patches here.
LastTokens FindLastTokens(const VitConfig& config, std::string_view canonical);

enum class RowOrder { kToNeighbours, kToHalves };

/// Reorders dense rows of `row_bytes` bytes each.
void ReorderRows(const HalfSplitRows& split, RowOrder order, int64_t row_bytes, std::byte* rows);

/// Where a tensor is within a stored one.
struct Extract {
  int64_t begin = 0, end = 1, pieces = 1;  // pieces [begin, end) of equal pieces along the first axis
  bool transposed = false;

  bool whole() const { return pieces == 1 && !transposed; }
};

/// A tensor of the table, and the stored tensors that hold it (concatenated along the first axis).
struct BoundTensor {
  TensorSpec spec;
  std::vector<const io::StoredTensor*> parts;
  Extract extract = {};  // not whole: of the only part
  // One more part, of the same shape and before parts[zero_part], is not stored: it is zero. −1: there is none.
  int zero_part = -1;
  HalfSplitRows split = {};
  ScaledRows scaled = {};
  LastTokens last_tokens = {};
};

/// The tensor of this canonical name; null if there is none.
const BoundTensor* FindTensor(const std::vector<BoundTensor>& tensors, std::string_view canonical);

/// Values in the table's shape. Throws Error if one is NaN or infinite, because it would spread to all outputs.
template <typename T>
Tensor<T> Read(const BoundTensor& bound);

/// Finds every tensor of the configuration, in the table's order. Strict: throws Error that names all missing,
/// misshaped and unused tensors. Shapes are compared without axes of extent 1.
std::vector<BoundTensor> Bind(const VitConfig& config, const io::TensorSet& tensors);

/// The tensors of an image encoder and of what stands beside it, a text encoder or a decoder, in the tables' orders;
/// without either (null) as above. Strict likewise: a tensor must belong to a part.
struct BoundTowers {
  std::vector<BoundTensor> image, text, decoder;
};
BoundTowers BindTowers(const VitConfig& config, const TextTower* text, const CaptionDecoder* decoder,
                       const io::TensorSet& tensors);

/// One part of a model: the tensors of `table` by a layout, whose '@' stands for `prefix`.
struct BoundPart {
  const SequenceConfig& config;
  std::vector<TensorSpec> table;
  const Layout& layout;
  std::string prefix;
};
/// The tensors of each part, in the tables' orders; parts may share tensors. Strict: a tensor must belong to a part, or
/// be ignored by a layout. model: owner of the tensors, for messages.
std::vector<std::vector<BoundTensor>> BindParts(std::vector<BoundPart> parts, const io::TensorSet& tensors,
                                                std::string_view model);

/// As above, for a table whose tensors are stored under their own names. model: owner of the tensors, for messages.
std::vector<BoundTensor> Bind(std::vector<TensorSpec> table, const io::TensorSet& tensors, std::string_view model);

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

/// Names for a tensor of the configuration to add to a file that holds `tensors`: with the same prefix, and of the same
/// library generation as `beside`, a tensor of the table. Throws Error if the layout has no name for it.
std::vector<std::string> NamesBeside(const VitConfig& config, const io::TensorSet& tensors, std::string_view canonical,
                                     std::string_view beside);

/// The first tensor named `suffix`, or whose name ends with "." and `suffix`; or null.
const io::StoredTensor* FindWithSuffix(const io::TensorSet& tensors, std::string_view suffix);

/// Throws Error for tensors that are no weights to compute with: of an adapter that was not merged, or quantised.
void RequirePlainWeights(const io::TensorSet& tensors);

}  // namespace qkv::model
