// timm's class Beit, for timm_vit.cc: timm has one form of config.json for all its classes.
#pragma once

#include <string>

#include "qkv/io/fields.h"
#include "qkv/model/config/vit_config.h"

namespace qkv::model {

/// True if a config.json of timm is of class Beit: by its name in the registry, or by arguments that only Beit has.
bool IsTimmBeit(const io::Fields& config);

/// The configuration for the arguments of Beit's constructor. Throws Error that names an argument that qkv lacks.
VitConfig ParseTimmBeit(const io::Fields& args, const std::string& architecture);

}  // namespace qkv::model
