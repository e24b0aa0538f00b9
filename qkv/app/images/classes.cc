#include "qkv/app/images/classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

namespace qkv::app {

ClassFinder::ClassFinder(const std::vector<std::string>& labels, int64_t classes)
    : labels_(labels), classes_(classes), known_(builtin::ImageNetClasses(classes)) {
  for (size_t i = 0; i < labels.size(); ++i) by_label_.emplace(labels[i], static_cast<int64_t>(i));
}

int64_t ClassFinder::Find(const std::string& name) const {
  const auto label = by_label_.find(name);
  if (label != by_label_.end()) return label->second;
  const auto known = std::ranges::lower_bound(known_, name, {}, &builtin::ImageNetClass::number);
  if (known != known_.end() && known->number == name) {
    const auto index = static_cast<size_t>(known - known_.begin());
    // Some files shorten "tench, Tinca tinca" to its first name.
    if (labels_.empty() || known->names.starts_with(labels_[index])) return static_cast<int64_t>(index);
  }
  int64_t index = -1;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data(), end, index);
  return error == std::errc() && stop == end && index >= 0 && index < classes_ ? index : -1;
}

std::vector<int64_t> MatchClasses(const std::vector<std::string>& names, const model::Model& model, bool* by_order) {
  const int64_t classes = model.config().classes;
  *by_order = false;
  std::vector<int64_t> matched;
  std::vector<std::string> unknown;
  const ClassFinder finder(model.labels(), classes);
  for (const std::string& name : names) {
    matched.push_back(finder.Find(name));
    if (matched.back() < 0) unknown.push_back(name);
  }
  if (unknown.empty()) return matched;
  const bool unnamed = model.labels().empty() || model.label_source() == model::LabelSource::kAssumed;
  if (unnamed && std::ssize(names) == classes) {
    *by_order = true;
    for (int64_t i = 0; i < classes; ++i) matched[static_cast<size_t>(i)] = i;
    return matched;
  }
  const auto list = [](const std::vector<std::string>& all) {
    constexpr size_t kShown = 5;
    std::string text;
    for (size_t i = 0; i < std::min(kShown, all.size()); ++i) {
      text += fmt::format("{}\"{}\"", i == 0 ? "" : ", ", all[i]);
    }
    return all.size() > kShown ? text + ", …" : text;
  };
  if (model.labels().empty()) {
    Fail("the data has {} classes ({}), the model has {} without names", names.size(), list(names), classes);
  }
  Fail("the model does not know {} of the data's {} classes: {}; it knows {}", unknown.size(), names.size(),
       list(unknown), list(model.labels()));
}

std::optional<std::vector<int64_t>> MatchFolderClasses(const std::vector<std::string>& files,
                                                       const std::filesystem::path& folder,
                                                       const std::vector<std::string>& labels, int64_t classes) {
  const ClassFinder finder(labels, classes);
  std::vector<int64_t> result;
  for (const std::string& file : files) {
    const std::filesystem::path inside = std::filesystem::path(file).lexically_relative(folder);
    if (inside.empty() || std::next(inside.begin()) == inside.end()) return {};
    result.push_back(finder.Find(inside.begin()->string()));
    if (result.back() < 0) return {};
  }
  return result;
}

}  // namespace qkv::app
