// Fields of requests. Each is declared once: its name, type, bounds and meaning. What a route refuses and its part of
// openapi.json follow from that.
#pragma once

#include <string_view>
#include <vector>

namespace qkv::server {

struct Field {
  enum class Type {
    kText,
    kInteger,
    kNumber,
    kFlag,
    kImages,  // the fields "image" and "images" of JSON, files of a form
    kOther,   // as `schema` says; a text in a form
  };
  enum class Places {
    kAll,   // also in the query, beside an image as the body
    kBody,  // JSON and forms
    kJson,
  };

  std::string_view name;
  Type type = Type::kText;
  std::string_view meaning = "";
  double low = 0, high = 0;       // inclusive bounds of numbers; equal: they depend on the model
  std::string_view choices = "";  // "a|b" if a text is one of these words, the first unless given
  std::string_view schema = "";   // JSON Schema of kOther
  Places places = Places::kAll;
};

inline constexpr Field kModelField = {
    .name = "model", .meaning = "Id of a model (`/v1/models`). Without it, the first one that can do this."};
inline constexpr Field kImageField = {.name = "image", .type = Field::Type::kImages};
inline constexpr Field kTruncateField = {
    .name = "truncate",
    .type = Field::Type::kFlag,
    .meaning =
        "false: a text with more tokens than the model reads is refused (413). Else it is cut, and the answer says so",
    .places = Field::Places::kBody};
inline constexpr Field kEncodingField = {.name = "encoding_format", .choices = "float|base64"};
inline constexpr Field kPrefixField = {.name = "prefix",
                                       .meaning = "Put before each text; without it, as the model's files say",
                                       .places = Field::Places::kBody};
inline constexpr Field kStreamField = {.name = "stream", .type = Field::Type::kFlag, .places = Field::Places::kJson};

/// The words of Field::choices.
std::vector<std::string_view> ChoicesOf(const Field& field);

/// The names of the fields that a request may have beside "model", which all may have.
using FieldNames = std::vector<std::string_view>;
FieldNames NamesOf(const std::vector<Field>& fields);

}  // namespace qkv::server
