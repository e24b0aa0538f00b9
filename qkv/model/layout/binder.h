// Binds tables of tensors (tensor_table.h) to stored tensors, strictly: each is used, and each has its place.
#pragma once

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/io/tensor_set.h"
#include "qkv/model/layout/bound_tensor.h"
#include "qkv/model/layout/tensor_names.h"
#include "qkv/model/layout/tensor_table.h"

namespace qkv::model {

/// Binds tables to the tensors of one file, and finds what no table used.
class Binder {
 public:
  explicit Binder(const io::TensorSet& tensors) : tensors_(tensors) {}

  /// names_of: all alternatives for a canonical tensor.
  template <typename NamesFunction>
  std::vector<BoundTensor> Bind(std::vector<TensorSpec> table, const NamesFunction& names_of) {
    std::vector<BoundTensor> bound;
    for (TensorSpec& spec : table) {
      const std::vector<Alternative> alternatives = names_of(spec.name);
      // The first alternative of which a part is present: what it lacks is missing.
      const auto present = std::ranges::find_if(alternatives, [&](const Alternative& one) {
        return std::ranges::any_of(
            one.parts, [&](const std::string& name) { return name != kZeroPart && tensors_.Find(name) != nullptr; });
      });
      const Alternative& chosen = present == alternatives.end() ? alternatives.front() : *present;
      bound.push_back({.spec = std::move(spec), .parts = {}, .extract = chosen.extract});
      Take(chosen, &bound.back());
    }
    return bound;
  }
  /// The same by the names of a layout, whose ignored tensors are then not left over.
  std::vector<BoundTensor> Bind(std::vector<TensorSpec> table, const Layout& layout, const std::string& prefix);
  /// Tensors that are not read.
  void Ignore(const Layout& layout, std::string_view prefix);

  /// Throws Error that names all missing, misshaped and unused tensors. advice: what to add, called if there are some.
  void Finish(std::string_view model, const std::function<std::string()>& advice = {}) const;

 private:
  bool IsIgnored(std::string_view name) const;
  void Take(const Alternative& chosen, BoundTensor* tensor);

  const io::TensorSet& tensors_;
  std::set<std::string, std::less<>> ignored_;
  std::vector<std::string> ignored_beginnings_, ignored_endings_;
  std::set<const io::StoredTensor*> used_;
  std::vector<std::string> missing_, misshaped_;
};

/// Sets how the file of a part stores its weights.
void SetStorage(const SequenceConfig& config, std::vector<BoundTensor>* bound);

/// One part of a model: the tensors of `table` by a layout, whose '@' stands for `prefix`.
struct BoundPart {
  const SequenceConfig& config;
  std::vector<TensorSpec> table;
  const Layout& layout;
  std::string prefix;
};
/// The tensors of each part, in the tables' orders; parts may share tensors. Strict: a tensor must belong to a part, or
/// be ignored by a layout. model: owner of the tensors, for messages.
std::vector<std::vector<BoundTensor>> BindParts(std::vector<BoundPart> parts, const io::TensorSet& tensors,
                                                std::string_view model);

/// As above, for a table whose tensors are stored under their own names. model: owner of the tensors, for messages.
std::vector<BoundTensor> Bind(std::vector<TensorSpec> table, const io::TensorSet& tensors, std::string_view model);

}  // namespace qkv::model
