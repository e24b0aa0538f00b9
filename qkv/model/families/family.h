// A family of models: all functions that know its files. families/NAME.cc defines its row; families.cc lists the rows.
// Arithmetic never asks for the family: it asks flags of VitConfig, which the family sets.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "qkv/image/preprocess.h"
#include "qkv/io/json.h"
#include "qkv/io/safetensors.h"
#include "qkv/model/checkpoint/tensor_names.h"
#include "qkv/model/checkpoint/translate.h"
#include "qkv/model/config/description.h"
#include "qkv/model/config/fields.h"

namespace qkv::model {

struct FamilyRow {
  Family library;  // whose classes these are; a library may have several rows
  /// Hugging Face's model_type of these models; empty for other libraries.
  std::span<const std::string_view> model_types;

  /// Whether a config.json is of this family, and whether tensors without a config.json are. Of all rows at most one
  /// says yes, or the first in the list counts.
  bool (*recognises)(const Fields& config);
  bool (*recognises_tensors)(const io::SafeTensors& tensors);

  /// Configuration, labels and the library's preprocessing. Describe (description.h) reads qkv's own keys and
  /// validates.
  Description (*describe)(const io::Json& config, const std::optional<io::Json>& preprocessor,
                          const io::SafeTensors& tensors);
  Description (*describe_tensors)(const io::SafeTensors& tensors, const Given& given);

  /// Which row of a library holds a model: of its rows exactly one says yes.
  bool (*holds)(const VitConfig& config);
  const Layout& (*layout)(const VitConfig& config);
  /// preprocess_json, or the same for another input size.
  image::Preprocess (*preprocess)(const Description& description, ImageSize size);
  /// Throws Error that names everything of the model that the library's class has not got.
  Translation (*translate)(const Description& description);
};

}  // namespace qkv::model
