#include "qkv/server/request_input.h"

#include <charconv>
#include <cmath>

#include "qkv/report/base64.h"
#include "qkv/server/multipart.h"

namespace qkv::server {
namespace {

[[noreturn]] void Wrong(std::string_view name, std::string_view expected) {
  throw HttpError(400, "invalid_request_error", FormatShown("{}: expected {}", name, expected));
}

template <typename T>
bool Parse(const std::string& text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

}  // namespace

std::string ImageBytes(std::string_view text, std::string_view name) {
  if (text.starts_with("http://") || text.starts_with("https://")) {
    Wrong(name, "an image as a data URI (data:image/png;base64,…); this server fetches no addresses");
  }
  if (text.starts_with("data:")) {
    const size_t comma = text.find(',');
    if (comma == text.npos || !text.substr(0, comma).ends_with(";base64")) {
      Wrong(name, "a data URI with base64: data:image/png;base64,…");
    }
    text.remove_prefix(comma + 1);
  }
  std::optional<std::string> bytes = report::FromBase64(text);
  if (!bytes || bytes->empty()) Wrong(name, "an image in base64");
  return std::move(*bytes);
}

io::Json ParseObject(std::string_view body) {
  io::Json json;
  try {
    json = io::ParseJson(body, "body");
  } catch (const Error& error) {
    throw HttpError(400, "invalid_request_error", error.what());
  }
  if (!json.is_object()) Wrong("body", "a JSON object");
  return json;
}

RequestInput::RequestInput(const HttpRequest& request) {
  for (const auto& [name, value] : request.query) fields_[name] = value, words_.insert(name);
  const std::string type = request.MediaType();
  if (type == "application/json" || (type.empty() && request.body.starts_with('{'))) {
    ReadJson(request);
  } else if (type == "multipart/form-data") {
    ReadForm(request);
  } else if (type.starts_with("image/") || type == "application/octet-stream") {
    images_.push_back({"body", request.body});
  } else {
    throw HttpError(
        415, "invalid_request_error",
        FormatShown("Content-Type: expected application/json, multipart/form-data or an image, got {}", type));
  }
}

void RequestInput::ReadJson(const HttpRequest& request) {
  const io::Json given = ParseObject(request.body);
  for (const auto& [name, value] : given.items()) RequireNew(name);
  fields_.update(given);
  if (Has("image")) images_.push_back({"image", ImageBytes(Text("image"), "image")});
  if (!Has("images")) return;
  const std::vector<std::string> list = Texts("images");
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string name = "images[" + std::to_string(i) + "]";
    images_.push_back({name, ImageBytes(list[i], name)});
  }
}

void RequestInput::RequireNew(const std::string& name) const {
  if (fields_.contains(name)) Wrong(name, "it once, in the query or in the body");
}

void RequestInput::ReadForm(const HttpRequest& request) {
  for (const FormPart& part : ParseMultipart(request.Header("content-type"), request.body)) {
    if (part.is_file) {
      images_.push_back({part.filename.empty() ? part.name : part.filename, std::string(part.body)});
    } else {
      RequireNew(part.name);
      fields_[part.name] = std::string(part.body);
      words_.insert(part.name);
    }
  }
}

const std::vector<Upload>& RequestInput::RequireImages() const {
  if (images_.size() > kMostImages) {
    throw HttpError(400, "invalid_request_error",
                    fmt::format("expected up to {} images, got {}", kMostImages, images_.size()));
  }
  if (images_.empty()) {
    throw HttpError(400, "invalid_request_error",
                    "expected an image: as the body, as a file of a form, or in the field image (base64)");
  }
  return images_;
}

std::string RequestInput::Text(std::string_view name, std::string_view usual) const {
  if (!Has(name)) return std::string(usual);
  const io::Json& value = fields_[std::string(name)];
  if (!value.is_string()) Wrong(name, "a text");
  return value.get<std::string>();
}

int64_t RequestInput::Integer(std::string_view name, int64_t usual, int64_t least, int64_t most) const {
  if (!Has(name)) return usual;
  const io::Json& value = fields_[std::string(name)];
  int64_t number = 0;
  const bool fits = IsWord(name) ? Parse(value.get<std::string>(), &number)
                    : value.is_number_unsigned()
                        ? (number = static_cast<int64_t>(std::min<uint64_t>(value.get<uint64_t>(), INT64_MAX)), true)
                    : value.is_number_integer() ? (number = value.get<int64_t>(), true)
                                                : false;
  if (!fits || number < least || number > most) Wrong(name, fmt::format("a whole number from {} to {}", least, most));
  return number;
}

double RequestInput::Number(std::string_view name, double usual, double least, double most) const {
  if (!Has(name)) return usual;
  const io::Json& value = fields_[std::string(name)];
  double number = 0;
  const bool fits = IsWord(name) ? Parse(value.get<std::string>(), &number)
                                 : value.is_number() && (number = value.get<double>(), true);
  if (!fits || !std::isfinite(number) || number < least || number > most) {
    Wrong(name, fmt::format("a number from {} to {}", least, most));
  }
  return number;
}

bool RequestInput::Flag(std::string_view name, bool usual) const {
  if (!Has(name)) return usual;
  const io::Json& value = fields_[std::string(name)];
  if (value.is_boolean()) return value.get<bool>();
  if (IsWord(name) && (value == "true" || value == "1")) return true;
  if (IsWord(name) && (value == "false" || value == "0")) return false;
  Wrong(name, "true or false");
}

std::vector<std::string> RequestInput::Texts(std::string_view name) const {
  if (!Has(name)) return {};
  const io::Json& value = fields_[std::string(name)];
  if (value.is_string()) return {value.get<std::string>()};
  if (!value.is_array()) Wrong(name, "a text or a list of texts");
  std::vector<std::string> texts;
  for (const io::Json& text : value) {
    if (!text.is_string()) Wrong(name, "a text or a list of texts");
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

}  // namespace qkv::server
