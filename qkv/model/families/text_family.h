// A family of text models: all functions that depend on the format of its files. families/NAME.cc defines a row,
// text_families.cc lists the rows. Not here: arithmetic, which depends only on SequenceConfig.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "qkv/io/fields.h"
#include "qkv/io/json.h"
#include "qkv/io/tensor_set.h"
#include "qkv/model/config/text_description.h"
#include "qkv/model/layout/tensor_names.h"

namespace qkv::model {

struct TextFamilyRow {
  /// Values of "model_type" for this family.
  std::span<const std::string_view> model_types;
  /// Configurations of the parts. What the common files say (generation, pooling) is read by the caller.
  TextDescription (*describe)(const io::Fields& config, const io::TensorSet& tensors);
  /// Names of a part's tensors; null if no model of the family has the part.
  const Layout& (*encoder)(const SequenceConfig& config) = nullptr;
  const Layout& (*decoder)(const SequenceConfig& config) = nullptr;
  /// Keys of config.json that `describe` need not read, beside those that all of the library's classes have.
  std::span<const io::KnownKey> known;
  /// Tensors that every model of the family has; what precedes the first of them that is there stands for '@'.
  std::span<const std::string_view> anchors;
  /// What '@' usually is, where it is a prefix of wrappers, too.
  std::string_view base;
};

/// The row of a config.json; null if it is of no family of texts.
const TextFamilyRow* FindTextFamily(const io::Fields& config);
/// The row of a "model_type" that has one.
const TextFamilyRow& TextFamilyOf(std::string_view model_type);
/// The values of "model_type" that are known, for messages.
std::string TextModelTypes();

extern constinit const TextFamilyRow kHfBert, kHfDistilBert, kHfGpt2, kHfLlama, kHfMarian, kHfT5, kHfTrocr;

}  // namespace qkv::model
