// timm's registry of architectures, as data: the arguments of the class's constructor for each name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/io/json.h"

namespace qkv::model {

struct TimmArchitecture {
  io::Json args;            // model_args that differ from the class's defaults
  io::Json pretrained_cfg;  // of the given tag, or of the default one
};

/// The numbers of heads of the registry's models of this width and depth.
std::vector<int64_t> TimmHeads(int64_t width, int64_t depth);

/// `name` may have a tag: "vit_base_patch16_224.augreg_in21k". False if the registry lacks the name. Throws Error with
/// the reason for names whose blocks qkv does not run.
bool FindTimmArchitecture(std::string_view name, TimmArchitecture* architecture);

inline constexpr std::string_view kTimmEvaClass = "Eva", kTimmBeitClass = "Beit";
/// "VisionTransformer", "Eva" or "Beit"; empty if the registry lacks the name.
std::string_view TimmClass(std::string_view name);

}  // namespace qkv::model
