#include "qkv/model/layout/binder.h"

#include <iterator>

#include "qkv/core/error.h"
#include "qkv/model/layout/tensor_names.h"
#include "qkv/model/layout/tensor_table.h"

namespace qkv::model {

namespace {

std::vector<int64_t> WithoutOnes(const Shape& shape) {
  std::vector<int64_t> extents;
  std::copy_if(shape.extents().begin(), shape.extents().end(), std::back_inserter(extents),
               [](int64_t extent) { return extent != 1; });
  return extents;
}

// True if an extract of this tensor has the table's shape.
bool ExtractFits(const Shape& expected, const Shape& stored, const Extract& extract) {
  std::vector<int64_t> extents(stored.extents().begin(), stored.extents().end());
  const size_t axis = extract.columns ? 1 : 0;
  if (extents.size() <= axis || extents[axis] % extract.pieces != 0) return false;
  extents[axis] = extents[axis] / extract.pieces * (extract.end - extract.begin);
  if (extract.transposed) {
    if (extents.size() != 2) return false;
    std::swap(extents[0], extents[1]);
  }
  return Shape(extents) == expected;
}

// True if the parts, concatenated along the first axis, have the table's shape. Axes of extent 1 are ignored.
bool ShapesFit(const BoundTensor& bound) {
  const Shape& expected = bound.spec.shape;
  if (!bound.extract.whole()) return ExtractFits(expected, bound.parts[0]->shape, bound.extract);
  const auto count = static_cast<int64_t>(bound.parts.size()) + (bound.zero_part >= 0);
  if (count == 1) return WithoutOnes(bound.parts[0]->shape) == WithoutOnes(expected);
  const std::vector<int64_t>& rows = bound.spec.parts;
  if (!rows.empty() && rows.size() != bound.parts.size()) return false;
  for (size_t i = 0; i < bound.parts.size(); ++i) {
    const io::StoredTensor* const part = bound.parts[i];
    if (part->shape.rank() != expected.rank()) return false;
    if (rows.empty() ? part->shape[0] * count != expected[0] : part->shape[0] != rows[i]) return false;
    for (int axis = 1; axis < expected.rank(); ++axis) {
      if (part->shape[axis] != expected[axis]) return false;
    }
  }
  return true;
}

// The shape of each missing part of a tensor: of the rows that the others leave, an equal share.
Shape ShapeOfMissing(const BoundTensor& tensor, int64_t missing) {
  std::vector<int64_t> extents(tensor.spec.shape.extents().begin(), tensor.spec.shape.extents().end());
  for (const io::StoredTensor* part : tensor.parts) {
    if (part->shape.rank() > 0) extents[0] -= part->shape[0];
  }
  extents[0] = std::max<int64_t>(0, extents[0]) / (missing + (tensor.zero_part >= 0));
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

std::vector<BoundTensor> Binder::Bind(std::vector<TensorSpec> table, const Layout& layout, const std::string& prefix) {
  Ignore(layout, prefix);
  return Bind(std::move(table), [&](const std::string& name) { return FindAlternatives(layout, prefix, name); });
}

void Binder::Ignore(const Layout& layout, std::string_view prefix) {
  for (const std::string_view name : layout.ignored) {
    std::string expanded = WithPrefix(name, prefix);
    if (expanded.starts_with('*')) {
      ignored_endings_.push_back(expanded.substr(1));
    } else if (expanded.ends_with('*')) {
      expanded.pop_back();
      ignored_beginnings_.push_back(std::move(expanded));
    } else {
      ignored_.insert(std::move(expanded));
    }
  }
}

void Binder::Finish(std::string_view model, const std::function<std::string()>& advice) const {
  std::vector<std::string> left_over;
  for (const io::StoredTensor& tensor : tensors_.tensors()) {
    if (!used_.contains(&tensor) && !IsIgnored(tensor.name) && tensor.shape.size() > 0) {
      left_over.push_back(FormatShown("{} {}", tensor.name, tensor.shape));
    }
  }
  std::string problems;
  if (!missing_.empty()) problems += fmt::format("\n{} missing:{}", missing_.size(), List(missing_));
  if (!misshaped_.empty()) problems += fmt::format("\n{} of another shape:{}", misshaped_.size(), List(misshaped_));
  if (!left_over.empty()) problems += fmt::format("\n{} left over:{}", left_over.size(), List(left_over));
  if (!problems.empty() && advice) problems += advice();
  Require(problems.empty(), "checkpoint: its tensors are not those of {}{}", model, EscapedText{problems});
}

bool Binder::IsIgnored(std::string_view name) const {
  return ignored_.contains(name) ||
         std::ranges::any_of(ignored_beginnings_, [&](const std::string& begin) { return name.starts_with(begin); }) ||
         std::ranges::any_of(ignored_endings_, [&](const std::string& end) { return name.ends_with(end); });
}

void Binder::Take(const Alternative& chosen, BoundTensor* tensor) {
  const Shape& shape = tensor->spec.shape;
  std::vector<std::string> absent;
  for (const std::string& name : chosen.parts) {
    if (name == kZeroPart) {
      tensor->zero_part = static_cast<int>(tensor->parts.size());
    } else if (const io::StoredTensor* part = tensors_.Find(name)) {
      tensor->parts.push_back(part);
      used_.insert(part);
    } else {
      absent.push_back(name);
    }
  }
  for (const std::string& name : absent) {
    missing_.push_back(FormatShown("{} {}", name, ShapeOfMissing(*tensor, std::ssize(absent))));
  }
  if (absent.empty() && !ShapesFit(*tensor)) {
    const std::string where = chosen.extract.transposed ? ", transposed"
                              : !chosen.extract.whole() ? fmt::format(" in pieces {} to {} of {}", chosen.extract.begin,
                                                                      chosen.extract.end, chosen.extract.pieces)
                                                        : "";
    misshaped_.push_back(
        FormatShown("{} is {}, expected {}{}", tensor->parts[0]->name, FormatShapes(tensor->parts), shape, where));
  }
}

void SetStorage(const SequenceConfig& config, std::vector<BoundTensor>* bound) {
  for (BoundTensor& tensor : *bound) {
    tensor.split = FindHalfSplitRows(config, tensor.spec.name);
    tensor.scaled = FindScaledRows(config, tensor.spec.name);
  }
}

std::vector<std::vector<BoundTensor>> BindParts(std::vector<BoundPart> parts, const io::TensorSet& tensors,
                                                std::string_view model) {
  Binder binder(tensors);
  std::vector<std::vector<BoundTensor>> bound;
  for (BoundPart& part : parts) {
    bound.push_back(binder.Bind(std::move(part.table), part.layout, part.prefix));
    SetStorage(part.config, &bound.back());
  }
  binder.Finish(model);
  return bound;
}

std::vector<BoundTensor> Bind(std::vector<TensorSpec> table, const io::TensorSet& tensors, std::string_view model) {
  Binder binder(tensors);
  std::vector<BoundTensor> bound = binder.Bind(std::move(table), [](const std::string& name) {
    return std::vector<Alternative>{{{name}, {}}};
  });
  binder.Finish(model);
  return bound;
}

}  // namespace qkv::model
