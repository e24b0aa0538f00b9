// The list of the families of texts.
#include <algorithm>

#include "qkv/core/error.h"
#include "qkv/model/families/hf_common.h"
#include "qkv/model/families/text_family.h"

namespace qkv::model {
namespace {

constexpr const TextFamilyRow* kTextFamilies[] = {&kHfBert,   &kHfDistilBert, &kHfGpt2, &kHfLlama,
                                                  &kHfMarian, &kHfT5,         &kHfTrocr};

}  // namespace

const TextFamilyRow* FindTextFamily(const io::Fields& config) {
  const auto found = std::ranges::find_if(
      kTextFamilies, [&](const TextFamilyRow* row) { return HasModelType(config, row->model_types); });
  return found == std::end(kTextFamilies) ? nullptr : *found;
}

const TextFamilyRow& TextFamilyOf(std::string_view model_type) {
  for (const TextFamilyRow* row : kTextFamilies) {
    if (std::ranges::find(row->model_types, model_type) != row->model_types.end()) return *row;
  }
  Fail("families: no text family has the model_type {}", model_type);
}

std::string TextModelTypes() {
  std::string types;
  for (const TextFamilyRow* row : kTextFamilies) {
    for (const std::string_view type : row->model_types) types.append(types.empty() ? "" : ", ").append(type);
  }
  return types;
}

}  // namespace qkv::model
