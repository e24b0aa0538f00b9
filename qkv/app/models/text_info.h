// Facts about a text model, and what was assumed about it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "qkv/io/json.h"
#include "qkv/model/checkpoint/text_checkpoint.h"

namespace qkv::app {

/// The fields of `qkv info --json` for a text model.
io::Json TextInfoJson(const model::TextCheckpoint& checkpoint);

/// The same for people: names and values, a line each.
std::vector<std::pair<std::string, std::string>> TextInfoLines(const model::TextCheckpoint& checkpoint);

}  // namespace qkv::app
