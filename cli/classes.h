// Names of classes: what a model calls them, and what the folders of images do.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "qkv/model/model.h"

namespace qkv::cli {

/// The class that is called so: by its label, or where none is, by its index. −1 where there is none.
int64_t FindClass(const std::string& name, const std::vector<std::string>& labels, int64_t classes);

/// The model's class for each of these, which are all of a data set's. A model without labels is taken to have been
/// trained on this data, its classes in this order, where there are as many; `*by_order` says so.
/// Throws Error that names those that the model does not know.
std::vector<int64_t> MatchClasses(const std::vector<std::string>& names, const model::Model& model, bool* by_order);

/// The class of each file, where `folder` has a subfolder for each, named as above. Nothing when a file is in no such
/// folder.
std::optional<std::vector<int64_t>> ClassesOf(const std::vector<std::string>& files,
                                              const std::filesystem::path& folder,
                                              const std::vector<std::string>& labels, int64_t classes);

}  // namespace qkv::cli
