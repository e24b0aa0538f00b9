// Names of classes for models whose files have none: from a user's file, or ImageNet's own.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "qkv/app/open/note.h"
#include "qkv/model/config/description.h"

namespace qkv::app {

/// Reads a name for each of `classes` classes: one a line; a JSON list; a JSON object from index to name, as Hugging
/// Face's id2label, or from name to index, as its label2id; or CSV, whose header names the columns (index or id, and
/// label or name), else the last column is the name. Throws Error that says what does not fit.
std::vector<std::string> ReadLabels(const std::filesystem::path& file, int64_t classes);

/// How front ends name a class: by its name, or "class 7" if it has none.
inline std::string ShownLabel(const std::string& label, int64_t index) {
  return label.empty() ? fmt::format("class {}", index) : label;
}

/// Gives a model without labels those of the file, if one is given (they replace its own), else those of the ImageNet
/// set with as many classes, and says so to `note`. `source`: the model, for messages.
void CompleteLabels(const std::filesystem::path& file, const std::string& source, model::Description& description,
                    const Note& note);

}  // namespace qkv::app
