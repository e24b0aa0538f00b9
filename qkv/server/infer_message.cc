#include "qkv/server/infer_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "qkv/app/open/json_line.h"
#include "qkv/io/float_list.h"
#include "qkv/server/infer_json.h"

namespace qkv::server {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors of the protocol are little-endian");

constexpr size_t kMostTensors = 64;
constexpr std::string_view kHeaderLength = "Inference-Header-Content-Length";

std::vector<int64_t> ExtentsOf(const Shape& shape) { return {shape.extents().begin(), shape.extents().end()}; }

std::string TextOf(const io::Json& json, const std::string& key, std::string_view what) {
  if (!json.contains(key) || !json[key].is_string()) BadRequest(what, fmt::format("a text \"{}\"", key));
  return json[key].get<std::string>();
}

io::Json ParametersOf(const io::Json& json, std::string_view what) {
  if (!json.contains("parameters") || json["parameters"].is_null()) return io::Json::object();
  if (!json["parameters"].is_object()) BadRequest(what, "an object \"parameters\"");
  const io::Json& parameters = json["parameters"];
  for (const auto& [name, ignored] : parameters.items()) {
    if (name.starts_with("shared_memory")) {
      throw HttpError(415, "invalid_request_error", "shared memory is not taken; send the tensors' bytes");
    }
  }
  return parameters;
}

bool FlagOf(const io::Json& parameters, const std::string& name, bool usual) {
  if (!parameters.contains(name)) return usual;
  if (!parameters[name].is_boolean()) BadRequest(name, "true or false");
  return parameters[name].get<bool>();
}

// A whole number that is not negative, or nothing.
std::optional<int64_t> CountOf(const io::Json& value) {
  if (value.is_number_unsigned()) {
    return static_cast<int64_t>(std::min<uint64_t>(value.get<uint64_t>(), std::numeric_limits<int64_t>::max()));
  }
  return std::nullopt;
}

Shape ShapeOf(const io::Json& json, const std::string& what) {
  if (!json.contains("shape") || !json["shape"].is_array() || json["shape"].size() > Shape::kMaxRank) {
    BadRequest(what, fmt::format("\"shape\", a list of up to {} numbers", Shape::kMaxRank));
  }
  std::vector<int64_t> extents;
  for (const io::Json& extent : json["shape"]) {
    const std::optional<int64_t> count = CountOf(extent);
    if (!count) BadRequest(what + ".shape", "whole numbers from 0");
    extents.push_back(*count);
  }
  try {
    return Shape(extents);
  } catch (const Error& error) {
    BadRequest(FormatShown("{}.shape: {}", what, error.what()));
  }
}

// Moves the elements of "data" to the tensor, by its datatype.
void MoveElements(InferData& data, InferTensor* tensor, const std::string& what) {
  if (!data.fault.empty()) BadRequest(what, "numbers or texts in one list or in equal lists, got " + data.fault);
  if (!data.Fits(tensor->shape)) {
    BadRequest(what, fmt::format("{} elements, in one list or in lists as the shape is", tensor->shape.size()));
  }
  const bool whole = data.floats.empty() && data.texts.empty(), numbers = data.texts.empty();
  if (tensor->datatype == "BYTES") {
    if (std::ssize(data.texts) != data.size()) BadRequest(what, "texts");
    tensor->texts = std::move(data.texts);
  } else if (tensor->datatype == "FP32") {
    if (!numbers) BadRequest(what, "numbers");
    tensor->floats = std::move(data.floats);
    if (whole) tensor->floats.assign(data.integers.begin(), data.integers.end());
  } else {
    if (!whole) BadRequest(what, "whole numbers of 64 bits");
    tensor->numbers = std::move(data.integers);
  }
}

template <typename Stored, typename T>
void CopyNumbers(std::string_view bytes, std::vector<T>* to) {
  to->resize(bytes.size() / sizeof(Stored));
  for (size_t i = 0; i < to->size(); ++i) {
    Stored value;
    std::memcpy(&value, bytes.data() + i * sizeof(Stored), sizeof(Stored));
    (*to)[i] = value;
  }
}

// Splits elements, each preceded by its length in 32 bits, as many as the shape has.
std::vector<std::string> SplitElements(std::string_view bytes, int64_t count, const std::string& what) {
  if (count > kMaxInferTexts) BadRequest(what, fmt::format("up to {} texts", kMaxInferTexts));
  std::vector<std::string> elements;
  while (!bytes.empty()) {
    uint32_t length = 0;
    if (std::ssize(elements) == count) BadRequest(what, fmt::format("{} elements, as the shape has", count));
    if (bytes.size() < sizeof(length)) BadRequest(what, "elements of BYTES behind their lengths of 4 bytes");
    std::memcpy(&length, bytes.data(), sizeof(length));
    bytes.remove_prefix(sizeof(length));
    if (length > bytes.size()) BadRequest(what, "elements of BYTES that end within the tensor");
    elements.emplace_back(bytes.substr(0, length));
    bytes.remove_prefix(length);
  }
  if (std::ssize(elements) != count) BadRequest(what, fmt::format("{} elements, as the shape has", count));
  return elements;
}

void ReadBytes(std::string_view bytes, InferTensor* tensor, const std::string& what) {
  tensor->binary = true;
  if (tensor->datatype == "BYTES") {
    tensor->texts = SplitElements(bytes, tensor->shape.size(), what);
    return;
  }
  const int64_t each = tensor->datatype == "INT64" ? 8 : 4;
  if (tensor->shape.size() > std::ssize(bytes) || tensor->shape.size() * each != std::ssize(bytes)) {
    BadRequest(what + ".binary_data_size", fmt::format("{} bytes for each of {} elements", each, tensor->shape.size()));
  }
  if (tensor->datatype == "FP32") CopyNumbers<float>(bytes, &tensor->floats);
  if (tensor->datatype == "INT32") CopyNumbers<int32_t>(bytes, &tensor->numbers);
  if (tensor->datatype == "INT64") CopyNumbers<int64_t>(bytes, &tensor->numbers);
}

InferTensor ParseInput(const io::Json& json, InferData* data, const std::string& what, std::string_view* rest) {
  InferTensor tensor{.name = TextOf(json, "name", what), .datatype = TextOf(json, "datatype", what)};
  if (tensor.datatype != "FP32" && tensor.datatype != "INT32" && tensor.datatype != "INT64" &&
      tensor.datatype != "BYTES") {
    BadRequest(what + ".datatype", "FP32, INT32, INT64 or BYTES");
  }
  tensor.shape = ShapeOf(json, what);
  const io::Json parameters = ParametersOf(json, what);
  if (!parameters.contains("binary_data_size")) {
    if (!json.contains("data")) BadRequest(what, "\"data\", or bytes and their binary_data_size");
    if (!json["data"].is_array()) BadRequest(what + ".data", "a list");
    MoveElements(*data, &tensor, what + ".data");
    return tensor;
  }
  const std::optional<int64_t> size = CountOf(parameters["binary_data_size"]);
  if (!size || *size > std::ssize(*rest)) {
    BadRequest(what + ".binary_data_size", fmt::format("at most the {} bytes that are left", rest->size()));
  }
  ReadBytes(rest->substr(0, static_cast<size_t>(*size)), &tensor, what);
  rest->remove_prefix(static_cast<size_t>(*size));
  return tensor;
}

WantedOutput ParseOutput(const io::Json& json, bool binary, const std::string& what) {
  if (!json.is_object()) BadRequest(what, "an object");
  const io::Json parameters = ParametersOf(json, what);
  WantedOutput output{.name = TextOf(json, "name", what), .binary = FlagOf(parameters, "binary_data", binary)};
  if (parameters.contains("classification")) {
    const std::optional<int64_t> classes = CountOf(parameters["classification"]);
    if (!classes) BadRequest(what + ".classification", "a number of classes");
    output.classes = *classes;
  }
  return output;
}

// Splits a body into its JSON and the bytes behind it.
std::pair<std::string_view, std::string_view> SplitBody(const HttpRequest& request, std::string_view given) {
  const std::string_view body = request.body;
  if (given.empty()) return {body, {}};
  size_t length = 0;
  const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), length);
  if (error != std::errc() || end != given.data() + given.size() || length > body.size()) {
    BadRequest(kHeaderLength, fmt::format("a number up to the body's {} bytes", body.size()));
  }
  return {body.substr(0, length), body.substr(length)};
}

}  // namespace

InferRequest ParseInferRequest(const HttpRequest& request) {
  const std::string_view given = request.Header("inference-header-content-length");
  auto [text, rest] = SplitBody(request, given);
  InferRequest parsed;
  if (!given.empty() && text.empty()) {
    parsed.raw = request.body;
    parsed.binary = true;
    return parsed;
  }
  auto [json, data] = ParseInferJson(text);
  if (json.contains("id")) parsed.id = TextOf(json, "id", "body");
  parsed.parameters = ParametersOf(json, "body");
  parsed.binary = FlagOf(parsed.parameters, "binary_data_output", false);
  const bool lists =
      json.contains("inputs") && json["inputs"].is_array() && !json["inputs"].empty() &&
      json["inputs"].size() <= kMostTensors &&
      (!json.contains("outputs") || (json["outputs"].is_array() && json["outputs"].size() <= kMostTensors));
  if (!lists) BadRequest("body", "a list \"inputs\", and perhaps one of \"outputs\", of up to 64 tensors");
  for (size_t i = 0; i < json["inputs"].size(); ++i) {
    const io::Json& input = json["inputs"][i];
    const std::string what = fmt::format("inputs[{}]", i);
    if (!input.is_object()) BadRequest(what, "an object");
    parsed.inputs.push_back(ParseInput(input, &data[i], what, &rest));
  }
  if (!rest.empty()) BadRequest("body", fmt::format("no {} bytes behind the last tensor", rest.size()));
  if (!json.contains("outputs")) return parsed;
  for (size_t i = 0; i < json["outputs"].size(); ++i) {
    parsed.outputs.push_back(ParseOutput(json["outputs"][i], parsed.binary, fmt::format("outputs[{}]", i)));
  }
  return parsed;
}

HttpResponse InferResponse(const std::string& model, const std::string& version, const std::string& id,
                           const InferAnswer& answer) {
  io::Json json = {{"model_name", model}, {"model_version", version}, {"outputs", io::Json::array()}};
  if (!id.empty()) json["id"] = id;
  if (answer.truncated) json["parameters"] = {{"truncated", true}};
  std::string bytes;
  bool binary = false;
  for (const InferOutput& output : answer.outputs) {
    const InferTensor& tensor = output.tensor;
    io::Json one = {{"name", tensor.name}, {"datatype", tensor.datatype}, {"shape", ExtentsOf(tensor.shape)}};
    if (output.binary) {
      binary = true;
      const size_t begin = bytes.size();
      bytes.append(reinterpret_cast<const char*>(tensor.floats.data()), tensor.floats.size() * sizeof(float));
      for (const std::string& text : tensor.texts) {
        const auto length = static_cast<uint32_t>(text.size());
        bytes.append(reinterpret_cast<const char*>(&length), sizeof(length));
        bytes += text;
      }
      one["parameters"] = {{"binary_data_size", bytes.size() - begin}};
    } else if (tensor.datatype == "BYTES") {
      one["data"] = tensor.texts;
    } else {
      one["data"] = io::FloatList(tensor.floats);
    }
    json["outputs"].push_back(std::move(one));
  }
  HttpResponse response{.body = app::JsonLine(json)};
  if (!binary) return response;
  response.type = "application/octet-stream";
  response.headers.emplace_back(kHeaderLength, std::to_string(response.body.size()));
  response.body += bytes;
  return response;
}

}  // namespace qkv::server
