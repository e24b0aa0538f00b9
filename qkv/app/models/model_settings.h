// How qkv used every setting in a model's files (AnyModel::Settings), for people and programs.
#pragma once

#include <string>
#include <vector>

#include "qkv/io/fields.h"
#include "qkv/io/json.h"

namespace qkv::app {

/// For `qkv info --settings`: a line for each under the name of its file.
std::vector<std::string> SettingsLines(const std::vector<io::Setting>& settings);
/// The same as a list of objects with file, key, value (JSON as a text, cut if it is long) and use.
io::Json SettingsJson(const std::vector<io::Setting>& settings);

}  // namespace qkv::app
