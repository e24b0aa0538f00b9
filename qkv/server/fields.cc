#include "qkv/server/fields.h"

#include <algorithm>

namespace qkv::server {

std::vector<std::string_view> ChoicesOf(const Field& field) {
  std::vector<std::string_view> choices;
  for (size_t begin = 0; begin < field.choices.size();) {
    const size_t end = std::min(field.choices.find('|', begin), field.choices.size());
    choices.push_back(field.choices.substr(begin, end - begin));
    begin = end + 1;
  }
  return choices;
}

FieldNames NamesOf(const std::vector<Field>& fields) {
  FieldNames names;
  for (const Field& field : fields) {
    if (field.name != kModelField.name) names.push_back(field.name);
  }
  return names;
}

}  // namespace qkv::server
