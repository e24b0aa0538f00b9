// Matches the names of classes: those of a model, and those of a data set's folders.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "qkv/builtin/imagenet.h"
#include "qkv/model/model.h"

namespace qkv::app {

/// Finds classes of a model by the names that folders give them.
class ClassFinder {
 public:
  /// labels: of the model's classes, or empty; must outlive it.
  ClassFinder(const std::vector<std::string>& labels, int64_t classes);

  /// The class with this label; or whose WordNet number this is ("n01440764"), if the model's classes are those of an
  /// ImageNet set (builtin/imagenet.h) by their number and by this one's label; or with this index; else −1.
  int64_t Find(const std::string& name) const;

 private:
  const std::vector<std::string>& labels_;
  std::unordered_map<std::string_view, int64_t> by_label_;  // the first of each
  int64_t classes_;
  std::vector<builtin::ImageNetClass> known_;  // sorted by number; empty if there is no such set
};

/// The model's class for each name; `names` are all classes of a data set. A model whose files name no classes and that
/// has as many is assumed to have been trained on this data, with its classes in this order; `*by_order` is then true.
/// Throws Error that lists the names that the model does not know.
std::vector<int64_t> MatchClasses(const std::vector<std::string>& names, const model::Model& model, bool* by_order);

/// The class of each file if `folder` has a subfolder for each class, named as for ClassFinder. Nothing if any file is
/// in no such subfolder.
std::optional<std::vector<int64_t>> MatchFolderClasses(const std::vector<std::string>& files,
                                                       const std::filesystem::path& folder,
                                                       const std::vector<std::string>& labels, int64_t classes);

}  // namespace qkv::app
