// A family of models: all functions that depend on the format of its files. families/NAME.cc defines a row, families.cc
// lists the rows. Not here: arithmetic, which depends only on flags of VitConfig that the family sets.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "qkv/image/preprocess.h"
#include "qkv/io/fields.h"
#include "qkv/io/json.h"
#include "qkv/io/safetensors.h"
#include "qkv/model/config/description.h"
#include "qkv/model/layout/config_files.h"
#include "qkv/model/layout/tensor_names.h"
#include "qkv/model/layout/translation.h"

namespace qkv::model {

struct FamilyRow {
  Family library;  // library of these classes; a library may have several rows
  /// Values of Hugging Face's model_type for this family; empty for other libraries.
  std::span<const std::string_view> model_types;

  /// True if a config.json, or tensors without a config.json, are of this family. If several rows match, the first in
  /// the list applies.
  bool (*recognises)(const io::Fields& config);
  bool (*recognises_tensors)(const io::TensorSet& tensors);

  /// Configuration, labels and the library's preprocessing. Describe (config/description.h) reads qkv's own keys and
  /// validates.
  Description (*describe)(const io::Fields& config, const std::optional<io::Json>& preprocessor,
                          const io::TensorSet& tensors);
  /// Keys of config.json that `describe` need not read.
  std::span<const io::KnownKey> known = {};
  Description (*describe_tensors)(const io::TensorSet& tensors, const ModelHints& given);

  /// Settings that a caller may give: keys of `arguments`, an object in config.json, and keys of the preprocessing
  /// configuration.
  std::span<const std::string_view> settings, preprocess_settings;
  io::Json& (*arguments)(io::Json& config);
  /// The settings with which the configuration would fit the tensors, as options of the command line: " --set
  /// reg_tokens=4". Empty if there are none. Null for a family that cannot tell.
  std::string (*settings_that_fit)(const VitConfig& config, const io::TensorSet& tensors);
  /// Stores the model's preprocessing configuration, changed by `settings` and by mean, std and crop_pct of `given`.
  /// Null if the family's files always tell it.
  void (*change_preprocess)(const Description& description, const io::Json& settings, const ModelHints& given,
                            ConfigFiles* files);
  /// Sets the keys of config.json that name the classes.
  void (*write_labels)(const Description& description, io::Json* config);

  /// True for the one row of the library that holds a model of this configuration.
  bool (*holds)(const VitConfig& config);
  const Layout& (*layout)(const VitConfig& config);
  /// Names of the text encoder's tensors: those of a SequenceConfig, "logit_scale" and "logit_bias". Null if no model
  /// of the family has one.
  const Layout* text_layout = nullptr;
  /// Preprocessing from Description::preprocess_json, which `settings` are, or for another input size.
  image::Preprocess (*preprocess)(const Description& description, const io::Fields& settings, ImageSize size);
  /// Keys of that configuration that `preprocess` need not read. Empty: they are those of the model's own file.
  std::span<const io::KnownKey> preprocess_known = {};
  /// Throws Error that names everything in the model that the library's class lacks.
  Translation (*translate)(const Description& description);
};

}  // namespace qkv::model
