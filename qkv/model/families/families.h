// The registry of families: one row for each NAME.cc of this folder, and the libraries that they belong to.
#pragma once

#include <span>
#include <string_view>

#include "qkv/model/families/family.h"
#include "qkv/model/layout/tensor_names.h"

namespace qkv::model {

struct Library {
  Family family;
  std::string_view name, option;  // for messages, and for `qkv convert --layout`
  bool written = true;            // conversion writes its layout
};

std::span<const Library> Libraries();

/// All rows; of several that recognise a model the first applies.
std::span<const FamilyRow* const> Families();

extern const FamilyRow kVitPytorch, kTimmBeit, kTimmEva, kTimmVit, kHfBeit, kHfCaption, kHfClip, kHfSiglip, kHfVit,
    kHfVitRelatives, kHfDinov2, kHfDinov3, kHfEomt, kHfYolos, kOpenClip;

/// The row of the family that holds this model, or that would hold it after translation to `library`.
const FamilyRow& FindFamily(const VitConfig& config);
const FamilyRow& FindFamily(const VitConfig& config, Family library);

/// The names of a configuration's tensors: determined by its family, and within the family by the model.
const Layout& GetLayout(const VitConfig& config);

/// For a library of families/. Throws Error that names everything in the model that the library's class lacks.
Translation Translate(const Description& description, Family library);

/// The row of a config.json. Throws Error if no family recognises it.
const FamilyRow& FindFamily(const io::Fields& config);

/// The row of tensors without a config.json. Throws Error if no family recognises them.
const FamilyRow& FindFamily(const io::TensorSet& tensors);

}  // namespace qkv::model
