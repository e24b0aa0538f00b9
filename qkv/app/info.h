// What a checkpoint is, and what was assumed about it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "qkv/io/json.h"
#include "qkv/model/checkpoint/checkpoint.h"

namespace qkv::app {

/// The fields of `qkv info --json`: source, family, sizes, cost, labels, preprocessing in words, assumptions.
io::Json InfoJson(const model::Checkpoint& checkpoint);

/// The same for people, and what this machine runs it on: names and values, a line each.
std::vector<std::pair<std::string, std::string>> InfoLines(const model::Checkpoint& checkpoint);

}  // namespace qkv::app
