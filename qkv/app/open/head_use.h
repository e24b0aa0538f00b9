// What an image model's heads are for, in the messages of work that needs other heads.
#pragma once

#include <string_view>

#include "qkv/model/config/vit_config.h"

namespace qkv::app {

/// As the end of a message: "for boxes of objects try: qkv detect".
std::string_view UseOfHeads(const model::VitConfig& config);

}  // namespace qkv::app
