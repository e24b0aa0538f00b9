// Resolves canonical names to stored ones, and binds tensors strictly.
#include "qkv/model/checkpoint/tensor_names.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "qkv/model/families/families.h"

namespace qkv::model {
namespace {

// Splits "blocks.3.attn.qkv.weight" into pattern "blocks.{}.attn.qkv", index "3" and suffix ".weight".
struct CanonicalName {
  explicit CanonicalName(std::string_view name) : pattern(name) {
    if (name.starts_with("blocks.")) {
      const size_t begin = 7, end = name.find('.', begin);
      index = std::string(name.substr(begin, end - begin));
      pattern = "blocks.{}" + std::string(name.substr(end));
    }
  }
  std::string pattern, index;
};

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::string Expand(std::string_view stored, std::string_view prefix, std::string_view index, std::string_view suffix) {
  std::string name;
  for (size_t i = 0; i < stored.size(); ++i) {
    if (stored[i] == '@') {
      name += prefix;
    } else if (stored.substr(i).starts_with("{}")) {
      name += index;
      ++i;
    } else {
      name += stored[i];
    }
  }
  return name.append(suffix);
}

const NameRow* FindRow(const Layout& layout, std::string_view canonical) {
  for (const std::span<const NameRow> table : layout.tables) {
    for (const NameRow& row : table) {
      if (row.canonical == canonical) return &row;
    }
  }
  return nullptr;
}

// All alternatives for a canonical tensor, each a list of parts. A row names the tensor or its module.
std::vector<std::vector<std::string>> Alternatives(const Layout& layout, std::string_view prefix,
                                                   std::string_view canonical) {
  const CanonicalName name(canonical);
  for (const std::string_view suffix : {"", ".weight", ".bias"}) {
    if (!name.pattern.ends_with(suffix)) continue;
    const std::string_view stem = std::string_view(name.pattern).substr(0, name.pattern.size() - suffix.size());
    const NameRow* row = FindRow(layout, stem);
    if (!row) continue;
    std::vector<std::vector<std::string>> alternatives;
    for (const std::string_view alternative : Split(row->stored, '|')) {
      auto& parts = alternatives.emplace_back();
      for (const std::string_view part : Split(alternative, '+')) {
        parts.push_back(Expand(part, prefix, name.index, suffix));
      }
    }
    return alternatives;
  }
  Fail("layout: there is no name for tensor \"{}\"", canonical);
}

std::vector<int64_t> WithoutOnes(const Shape& shape) {
  std::vector<int64_t> extents;
  std::copy_if(shape.extents().begin(), shape.extents().end(), std::back_inserter(extents),
               [](int64_t extent) { return extent != 1; });
  return extents;
}

// True if the parts, concatenated along the first axis, have the table's shape. Axes of extent 1 are ignored.
bool ShapesFit(const Shape& expected, const std::vector<const io::StoredTensor*>& parts) {
  if (parts.size() == 1) return WithoutOnes(parts[0]->shape) == WithoutOnes(expected);
  int64_t first = 0;
  for (const io::StoredTensor* part : parts) {
    if (part->shape.rank() != expected.rank()) return false;
    first += part->shape[0];
    for (int axis = 1; axis < expected.rank(); ++axis) {
      if (part->shape[axis] != expected[axis]) return false;
    }
    if (part->shape[0] * static_cast<int64_t>(parts.size()) != expected[0]) return false;
  }
  return first == expected[0];
}

// The shape of each missing part of a tensor: of the rows that the others leave, an equal share.
Shape ShapeOfMissing(const BoundTensor& tensor, int64_t missing) {
  std::vector<int64_t> extents(tensor.spec.shape.extents().begin(), tensor.spec.shape.extents().end());
  for (const io::StoredTensor* part : tensor.parts) {
    if (part->shape.rank() > 0) extents[0] -= part->shape[0];
  }
  extents[0] = std::max<int64_t>(0, extents[0]) / missing;
  return Shape(extents);
}

std::string FormatShapes(const std::vector<const io::StoredTensor*>& parts) {
  std::string text;
  for (const io::StoredTensor* part : parts) text += (text.empty() ? "" : " + ") + fmt::format("{}", part->shape);
  return text;
}

// A list for a message: the first few entries, and the number of the others.
std::string List(const std::vector<std::string>& entries) {
  constexpr size_t kShown = 8;
  std::string text;
  for (size_t i = 0; i < std::min(entries.size(), kShown); ++i) text += "\n  " + entries[i];
  if (entries.size() > kShown) text += fmt::format("\n  and {} more", entries.size() - kShown);
  return text;
}

}  // namespace

const io::StoredTensor* FindWithSuffix(const io::TensorSet& tensors, std::string_view suffix) {
  for (const io::StoredTensor& tensor : tensors.tensors()) {
    const std::string_view name = tensor.name;
    if (name.ends_with(suffix) && (name.size() == suffix.size() || name[name.size() - suffix.size() - 1] == '.')) {
      return &tensor;
    }
  }
  return nullptr;
}

std::string BasePrefix(const io::TensorSet& tensors) {
  constexpr std::string_view kAnchor = "embeddings.patch_embeddings.projection.weight";
  const io::StoredTensor* anchor = FindWithSuffix(tensors, kAnchor);
  return anchor ? anchor->name.substr(0, anchor->name.size() - kAnchor.size()) : "";
}

const Layout& GetLayout(const VitConfig& config) { return FindFamily(config).layout(config); }

std::vector<std::string> PlaceholderNames(const Layout& layout, std::string_view prefix) {
  std::vector<std::string> names;
  for (const std::string_view name : layout.placeholders) names.push_back(Expand(name, prefix, "", ""));
  return names;
}

std::vector<std::string> StoredNames(const Layout& layout, std::string_view prefix, std::string_view canonical) {
  return Alternatives(layout, prefix, canonical).front();
}

std::vector<std::string> NamesBeside(const VitConfig& config, const io::TensorSet& tensors, std::string_view canonical,
                                     std::string_view beside) {
  const Layout& layout = GetLayout(config);
  const std::string prefix = BasePrefix(tensors);
  const auto names = Alternatives(layout, prefix, canonical), neighbours = Alternatives(layout, prefix, beside);
  const auto present =
      std::ranges::find_if(neighbours, [&](const auto& parts) { return tensors.Find(parts.front()) != nullptr; });
  const auto generation = static_cast<size_t>(present - neighbours.begin());
  return names[generation < names.size() ? generation : 0];
}

const BoundTensor* FindTensor(const std::vector<BoundTensor>& tensors, std::string_view canonical) {
  const auto found =
      std::ranges::find_if(tensors, [&](const BoundTensor& tensor) { return tensor.spec.name == canonical; });
  return found == tensors.end() ? nullptr : &*found;
}

template <typename T>
Tensor<T> Read(const BoundTensor& bound) {
  auto tensor = Tensor<T>::Uninitialised(bound.spec.shape);
  T* to = tensor.data();
  for (const io::StoredTensor* part : bound.parts) {
    io::ConvertTo<T>(*part, to);
    to += part->shape.size();
    // Otherwise memory holds the weights twice while the model is built, stored and packed.
    if (part->file != nullptr) ReleasePages(part->bytes);
  }
  // x − x is 0 for finite numbers only, and the sum vectorises.
  constexpr int kLanes = 16;
  T sums[kLanes] = {};
  const T* x = tensor.data();
  int64_t i = 0;
  for (; i + kLanes <= tensor.size(); i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) sums[lane] += x[i + lane] - x[i + lane];
  }
  bool finite = true;
  for (; i < tensor.size(); ++i) finite &= std::isfinite(x[i]);
  for (const T sum : sums) finite &= sum == T(0);
  Require(finite, "checkpoint: tensor \"{}\" holds NaN or infinity", bound.spec.name);
  return tensor;
}

template Tensor<float> Read(const BoundTensor&);
template Tensor<double> Read(const BoundTensor&);

namespace {

// names_of: all alternatives for a canonical tensor, each a list of parts. ignored: names of tensors that are not read.
template <typename NamesFunction>
std::vector<BoundTensor> BindTable(std::vector<TensorSpec> table, const NamesFunction& names_of,
                                   const std::set<std::string, std::less<>>& ignored, const io::TensorSet& tensors,
                                   const std::string& model, const std::function<std::string()>& advice = {}) {
  std::vector<BoundTensor> bound;
  std::vector<std::string> missing, misshaped, left_over;
  std::set<const io::StoredTensor*> used;
  for (TensorSpec& spec : table) {
    const std::vector<std::vector<std::string>> alternatives = names_of(spec.name);
    // The first of which a part is there: what it lacks is missing.
    const auto present = std::ranges::find_if(alternatives, [&](const auto& parts) {
      return std::ranges::any_of(parts, [&](const std::string& name) { return tensors.Find(name) != nullptr; });
    });
    BoundTensor tensor{std::move(spec), {}};
    std::vector<std::string> absent;
    for (const std::string& name : present == alternatives.end() ? alternatives.front() : *present) {
      if (const io::StoredTensor* part = tensors.Find(name)) {
        tensor.parts.push_back(part);
        used.insert(part);
      } else {
        absent.push_back(name);
      }
    }
    for (const std::string& name : absent) {
      missing.push_back(FormatShown("{} {}", name, ShapeOfMissing(tensor, std::ssize(absent))));
    }
    if (absent.empty() && !ShapesFit(tensor.spec.shape, tensor.parts)) {
      misshaped.push_back(
          FormatShown("{} is {}, expected {}", tensor.parts[0]->name, FormatShapes(tensor.parts), tensor.spec.shape));
    }
    bound.push_back(std::move(tensor));
  }
  for (const io::StoredTensor& tensor : tensors.tensors()) {
    if (!used.contains(&tensor) && !ignored.contains(tensor.name) && tensor.shape.size() > 0) {
      left_over.push_back(FormatShown("{} {}", tensor.name, tensor.shape));
    }
  }
  std::string problems;
  if (!missing.empty()) problems += fmt::format("\n{} missing:{}", missing.size(), List(missing));
  if (!misshaped.empty()) problems += fmt::format("\n{} of another shape:{}", misshaped.size(), List(misshaped));
  if (!left_over.empty()) problems += fmt::format("\n{} left over:{}", left_over.size(), List(left_over));
  if (!problems.empty() && advice) problems += advice();
  Require(problems.empty(), "checkpoint: its tensors are not those of {}{}", model, EscapedText{problems});
  return bound;
}

}  // namespace

std::vector<BoundTensor> Bind(const VitConfig& config, const io::TensorSet& tensors) {
  const Layout& layout = GetLayout(config);
  const std::string prefix = BasePrefix(tensors);
  std::set<std::string, std::less<>> ignored;
  for (const std::string_view name : layout.ignored) ignored.insert(Expand(name, prefix, "", ""));
  return BindTable(
      TensorTable(config), [&](const std::string& name) { return Alternatives(layout, prefix, name); }, ignored,
      tensors, fmt::format("{} ({} layout)", config.architecture, Name(config.family)),
      [&]() -> std::string {
        const auto settings_that_fit = FindFamily(config).settings_that_fit;
        const std::string settings = settings_that_fit ? settings_that_fit(config, tensors) : "";
        return settings.empty() ? "" : fmt::format("\nthe tensors are those of a model with{}", settings);
      });
}

std::vector<BoundTensor> Bind(std::vector<TensorSpec> table, const io::TensorSet& tensors, std::string_view model) {
  const auto itself = [](const std::string& name) { return std::vector<std::vector<std::string>>{{name}}; };
  return BindTable(std::move(table), itself, {}, tensors, std::string(model));
}

}  // namespace qkv::model
