// Facts about a checkpoint, and what was assumed about it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "qkv/io/json.h"
#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/model/checkpoint/text_checkpoint.h"

namespace qkv::app {

/// Names heads in the file that the vector leaves out: "vit: classifier.weight and 1 more tensor of a head are not
/// read"; empty if the model uses all heads of its file. Counters and tables that hold nothing learned are not named.
std::string UnreadHeads(const model::Checkpoint& checkpoint);
std::string UnreadHeads(const model::TextCheckpoint& checkpoint);

/// The fields of `qkv info --json`: source, family, sizes, cost, labels, preprocessing in words, assumptions.
io::Json InfoJson(const model::Checkpoint& checkpoint);

/// The same for people, and what this machine runs it on: names and values, a line each.
std::vector<std::pair<std::string, std::string>> InfoLines(const model::Checkpoint& checkpoint);

}  // namespace qkv::app
