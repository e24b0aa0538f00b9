// What timm_vit.cc, timm_eva.cc and timm_beit.cc share: timm has one form of config.json for all its classes.
#pragma once

#include <string>

#include "qkv/io/fields.h"
#include "qkv/model/checkpoint/translate.h"
#include "qkv/model/config/description.h"
#include "qkv/model/families/family.h"
#include "qkv/model/families/preprocess_common.h"

namespace qkv::model {

/// True if a config.json of timm is of class Eva: by its name in the registry, or by arguments that only Eva has.
bool IsTimmEva(const io::Fields& config);

/// The configuration for the arguments of Eva's constructor. Throws Error that names an argument that qkv lacks.
VitConfig ParseTimmEva(const io::Fields& args, const std::string& architecture);

/// The arguments that both classes have: sizes of image and patch, channels, width, depth and heads. Throws Error if
/// the heads do not divide the width.
void ParseTimmShape(const io::Fields& args, VitConfig* config);

/// Sets pool from "global_pool"; the class token must be known. Throws Error for a pooling that timm or qkv lacks.
void ParseTimmPool(const io::Fields& args, const std::string& otherwise, VitConfig* config);

/// A number, or two where they differ.
io::Json TimmSize(int64_t height, int64_t width);

/// The mlp_ratio with which timm, which multiplies and truncates, gets this hidden width.
double TimmMlpRatio(int64_t hidden, int64_t width);

/// The row of one of timm's classes, with what is the same for all: how their files say preprocessing and labels.
constexpr FamilyRow TimmRow(FamilyRow own) {
  own.library = Family::kTimm;
  own.describe = [](const io::Fields& config, const std::optional<io::Json>&, const io::TensorSet&) {
    return DescribeTimm(config.json());
  };
  own.preprocess_settings = kTimmPreprocessKeys;
  own.arguments = [](io::Json& config) -> io::Json& { return config["model_args"]; };
  own.change_preprocess = ChangeTimmPreprocess;
  own.write_labels = [](const Description& description, io::Json* config) {
    (*config)["label_names"] = description.labels;
  };
  own.preprocess = [](const Description& description, ImageSize size) {
    return PreprocessFromTimm(description.preprocess_json, size);
  };
  return own;
}

/// Adds to config.json what timm's classes share: eps if the entry's differs, pretrained_cfg and labels; and notes.
void EndTimmTranslation(const Description& description, double entry_eps, Translation* translation);

}  // namespace qkv::model
