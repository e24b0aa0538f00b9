// Matches the names of classes: those of a model, and those of a data set's folders.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "qkv/model/model.h"

namespace qkv::app {

/// The class with this label or, if there is none, with this index; −1 if there is neither.
int64_t FindClass(const std::string& name, const std::vector<std::string>& labels, int64_t classes);

/// The model's class for each name; `names` are all classes of a data set. A model without labels and with as many
/// classes is assumed to have been trained on this data, with its classes in this order; `*by_order` is then true.
/// Throws Error that lists the names that the model does not know.
std::vector<int64_t> MatchClasses(const std::vector<std::string>& names, const model::Model& model, bool* by_order);

/// The class of each file if `folder` has a subfolder for each class, named as in FindClass. Nothing if any file is in
/// no such subfolder.
std::optional<std::vector<int64_t>> MatchFolderClasses(const std::vector<std::string>& files,
                                                       const std::filesystem::path& folder,
                                                       const std::vector<std::string>& labels, int64_t classes);

}  // namespace qkv::app
