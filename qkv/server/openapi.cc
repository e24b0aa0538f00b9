#include "qkv/server/openapi.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "qkv/server/fields.h"
#include "qkv/server/openapi_file.h"

namespace qkv::server {
namespace {

using OrderedJson = nlohmann::ordered_json;  // the document's order is for people

enum class BodyForm { kJson, kForm, kQuery };

OrderedJson Bound(const Field& field, double value) {
  return field.type == Field::Type::kInteger ? OrderedJson(static_cast<int64_t>(value)) : OrderedJson(value);
}

// A value of one type, without its meaning.
OrderedJson PlainSchema(const Field& field, BodyForm form) {
  using Type = Field::Type;
  switch (field.type) {
    case Type::kOther:
      return form == BodyForm::kJson ? OrderedJson::parse(field.schema) : OrderedJson{{"type", "string"}};
    case Type::kImages:
      if (form == BodyForm::kJson) return {{"$ref", "#/components/schemas/Image"}};
      return {{"type", "string"}, {"description", "A file; several are several images"}, {"format", "binary"}};
    case Type::kFlag:
      if (form != BodyForm::kForm) return {{"type", "boolean"}};
      return OrderedJson::parse(R"({"anyOf": [{"type": "boolean"}, {"enum": ["true", "false", "1", "0", 1, 0]}]})");
    case Type::kInteger:
    case Type::kNumber: {
      OrderedJson schema = {{"type", field.type == Type::kInteger ? "integer" : "number"}};
      if (field.low == field.high) return schema;
      schema["minimum"] = Bound(field, field.low);
      schema["maximum"] = Bound(field, field.high);
      return schema;
    }
    case Type::kText:
      break;
  }
  OrderedJson schema = {{"type", "string"}};
  if (!field.choices.empty()) schema["enum"] = ChoicesOf(field);
  return schema;
}

OrderedJson SchemaOf(const Field& field, BodyForm form) {
  OrderedJson schema = PlainSchema(field, form);
  if (form == BodyForm::kJson && field.type == Field::Type::kImages) {
    return {{"anyOf", {std::move(schema), {{"type", "null"}}}}};
  }
  if (form == BodyForm::kJson && field.type != Field::Type::kOther) {  // null is as good as no field
    schema["type"] = {schema["type"], "null"};
    if (schema.contains("enum")) schema["enum"].push_back(nullptr);
  }
  if (!field.meaning.empty() && form != BodyForm::kQuery) schema["description"] = field.meaning;
  return schema;
}

OrderedJson Parameter(const Field& field) {
  OrderedJson parameter = {{"name", field.name}, {"in", "query"}};
  if (!field.meaning.empty()) parameter["description"] = field.meaning;
  parameter["schema"] = SchemaOf(field, BodyForm::kQuery);
  return parameter;
}

OrderedJson Properties(const std::vector<Field>& fields, BodyForm form) {
  OrderedJson properties = OrderedJson::object();
  for (const Field& field : fields) {
    if (form == BodyForm::kForm && field.places == Field::Places::kJson) continue;
    properties[std::string(field.name)] = SchemaOf(field, form);
    if (form == BodyForm::kJson && field.type == Field::Type::kImages) {
      properties["images"] = {{"type", {"array", "null"}}, {"items", PlainSchema(field, form)}};
    }
  }
  return properties;
}

void AddBody(const std::vector<Field>& fields, BodyForm form, OrderedJson* content) {
  OrderedJson& schema = (*content)["schema"];
  schema["type"] = "object";
  schema["additionalProperties"] = false;
  schema["properties"] = Properties(fields, form);
}

void AddFields(std::vector<Field> fields, OrderedJson* operation) {
  const bool names_model = std::ranges::any_of(fields, [](const Field& f) { return f.name == kModelField.name; });
  if (!names_model) fields.insert(fields.begin(), kModelField);
  OrderedJson& bodies = (*operation)["requestBody"]["content"];
  if (bodies.contains("application/json")) AddBody(fields, BodyForm::kJson, &bodies["application/json"]);
  if (bodies.contains("multipart/form-data")) AddBody(fields, BodyForm::kForm, &bodies["multipart/form-data"]);
  if (!bodies.contains("application/octet-stream")) return;
  OrderedJson parameters = OrderedJson::array();  // beside an image as the body
  for (const Field& field : fields) {
    const bool in_query = field.places == Field::Places::kAll && field.type != Field::Type::kImages;
    if (in_query) parameters.push_back(Parameter(field));
  }
  (*operation)["parameters"] = std::move(parameters);
}

}  // namespace

std::string DescribeRoutes(const Router& router) {
  OrderedJson document = OrderedJson::parse(OpenApiJson());
  for (const Route& route : router.routes()) {
    if (route.fields.empty()) continue;
    std::string method = route.method;
    for (char& c : method) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    AddFields(route.fields, &document.at("paths").at(route.pattern).at(method));
  }
  return document.dump(1) + "\n";
}

}  // namespace qkv::server
