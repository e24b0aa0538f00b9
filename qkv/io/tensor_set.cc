#include "qkv/io/tensor_set.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "qkv/core/error.h"
#include "qkv/io/json.h"

namespace qkv::io {

const StoredTensor* TensorSet::Find(std::string_view name) const {
  const auto found = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                      [](const StoredTensor& tensor, std::string_view n) { return tensor.name < n; });
  return found != tensors_.end() && found->name == name ? &*found : nullptr;
}

void TensorSet::RequireUnchanged() const {
  for (const File& file : files_) file.RequireUnchanged();
}

size_t TensorSet::bytes() const {
  size_t sum = 0;
  for (const StoredTensor& tensor : tensors_) sum += tensor.bytes.size();
  return sum;
}

std::string TensorSet::StripPrefixes(std::span<const std::string_view> prefixes,
                                     std::span<const std::string_view> anchors, std::string_view base) {
  const auto is_bare = [&] {
    return !base.empty() && std::ranges::any_of(anchors, [&](std::string_view anchor) {
      return Find(std::string(base).append(anchor)) != nullptr;
    });
  };
  std::string stripped;
  while (!tensors_.empty() && !is_bare()) {
    DropUnprefixed(prefixes, anchors);
    // Sorted: if the first and the last name have it, all have. A name that is nothing but the prefix would be empty.
    const auto prefix = std::ranges::find_if(prefixes, [&](std::string_view begin) {
      const auto has = [&](const StoredTensor& tensor) {
        return tensor.name.size() > begin.size() && tensor.name.starts_with(begin);
      };
      return !begin.empty() && has(tensors_.front()) && has(tensors_.back());
    });
    if (prefix == prefixes.end()) break;
    for (StoredTensor& tensor : tensors_) tensor.name.erase(0, prefix->size());
    stripped += *prefix;
  }
  return stripped;
}

// Counters of averages, metrics and losses lie beside a model that a wrapper holds whole.
void TensorSet::DropUnprefixed(std::span<const std::string_view> prefixes, std::span<const std::string_view> anchors) {
  const auto is_anchor = [&](const StoredTensor& tensor) {
    return std::ranges::any_of(anchors, [&](std::string_view end) { return tensor.name.ends_with(end); });
  };
  for (const std::string_view prefix : prefixes) {
    const auto has = [&](const StoredTensor& tensor) { return tensor.name.starts_with(prefix); };
    const auto holds = [&](const StoredTensor& tensor) { return has(tensor) && is_anchor(tensor); };
    if (std::ranges::none_of(tensors_, holds)) continue;
    std::vector<std::string> dropped;
    for (const StoredTensor& tensor : tensors_) {
      if (has(tensor)) continue;
      if (is_anchor(tensor)) return;  // two models
      dropped.push_back(tensor.name);
    }
    if (dropped.empty()) return;
    std::erase_if(tensors_, [&](const StoredTensor& tensor) { return !has(tensor); });
    constexpr size_t kNamed = 3;
    const size_t more = dropped.size() > kNamed ? dropped.size() - kNamed : 0;
    dropped.resize(dropped.size() - more);
    AddRemark(FormatShown("beside the tensors of {}… lie others, which are not read: {}{}", prefix,
                          fmt::join(dropped, ", "), more > 0 ? fmt::format(" and {} more", more) : ""));
    return;
  }
}

const TensorFile& TensorSet::Map(const std::filesystem::path& path) {
  return files_.emplace_back(File{path, MappedFile(path)});
}

std::span<const std::byte> TensorSet::Keep(std::vector<std::byte> bytes) {
  return memory_.emplace_back(std::move(bytes));
}

void TensorSet::Finish(std::string_view where) {
  std::sort(tensors_.begin(), tensors_.end(),
            [](const StoredTensor& a, const StoredTensor& b) { return a.name < b.name; });
  const auto twin = std::adjacent_find(tensors_.begin(), tensors_.end(),
                                       [](const StoredTensor& a, const StoredTensor& b) { return a.name == b.name; });
  if (twin != tensors_.end()) Fail("{}: tensor {} appears twice", where, Quoted(twin->name));
}

}  // namespace qkv::io
