#include "qkv/server/request_input.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <boost/beast/core/string.hpp>
#include <charconv>
#include <cmath>
#include <limits>

#include "qkv/report/base64.h"
#include "qkv/server/multipart.h"

namespace qkv::server {
namespace {

template <typename T>
bool Parse(const std::string& text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

constexpr std::string_view kBase64 = ";base64";  // the end of a data URI's head (RFC 2397)

// Ignores case, as schemes do (RFC 3986, 3.1).
bool BeginsWith(std::string_view text, std::string_view what) {
  const std::string_view begin = text.substr(0, what.size());
  return boost::beast::iequals({begin.data(), begin.size()}, {what.data(), what.size()});
}

}  // namespace

Upload ReadBase64(std::string_view text, std::string_view name) {
  if (BeginsWith(text, "http://") || BeginsWith(text, "https://")) {
    BadRequest(name, "an image as a data URI (data:image/png;base64,…); this server fetches no addresses");
  }
  if (BeginsWith(text, "data:")) {
    const size_t comma = text.find(',');
    const std::string_view head = text.substr(0, comma), mark = head.substr(std::min(head.rfind(';'), head.size()));
    if (comma == text.npos || !(mark.size() == kBase64.size() && BeginsWith(mark, kBase64))) {
      BadRequest(name, "a data URI with base64: data:image/png;base64,…");
    }
    text.remove_prefix(comma + 1);
  }
  std::optional<std::string> bytes = report::FromBase64(text);
  if (!bytes || bytes->empty()) BadRequest(name, "an image in base64");
  return {std::string(name), std::make_shared<const std::string>(std::move(*bytes))};
}

io::Json ParseRequestJson(std::string_view text, std::string_view where) {
  try {
    // A text may be as long as the body, whose length the transport limits: an image in base64 is one.
    io::CheckJsonLimits(text, {.depth = 64, .token_bytes = std::numeric_limits<size_t>::max(), .values = kMaxValues},
                        where);
    return io::Json::parse(text);
  } catch (const io::Json::exception& error) {
    BadRequest(FormatShown("{}: not valid JSON: {}", where, io::JsonErrorReason(error)));
  } catch (const Error& error) {
    BadRequest(error.what());
  }
}

io::Json ParseObject(std::string_view body) {
  io::Json json = ParseRequestJson(body, "body");
  if (!json.is_object()) BadRequest("body", "a JSON object");
  return json;
}

RequestInput::RequestInput(const HttpRequest& request, const FieldNames& known) {
  for (const auto& [name, value] : request.query) Add(name, value), words_.insert(name);
  const std::string type = request.MediaType();
  if (type == "application/json" || (type.empty() && request.body.starts_with('{'))) {
    ReadJson(request);
  } else if (type == "multipart/form-data") {
    ReadForm(request);
  } else if (type.starts_with("image/") || type == "application/octet-stream") {
    images_.emplace_back("body", std::string_view(request.body));
  } else {
    RefuseMediaType(request, "application/json, multipart/form-data or an image");
  }
  RequireKnown(known);
  ReadImages();
}

RequestInput::RequestInput(io::Json fields, const FieldNames& known) : fields_(std::move(fields)) {
  RequireKnown(known);
}

void RequestInput::Add(const std::string& name, io::Json value) {
  if (fields_.contains(name)) BadRequest(name, "it once, in the query or in the body");
  fields_[name] = std::move(value);
}

void RequestInput::RequireKnown(const FieldNames& known) const {
  const auto is_known = [&](std::string_view name) {
    return std::find(known.begin(), known.end(), name) != known.end();
  };
  if (!images_.empty() && !is_known("image")) BadRequest("expected fields alone, without an image");
  for (const auto& [name, ignored] : fields_.items()) {
    if (name == "model" || is_known(name == "images" ? "image" : std::string_view(name))) continue;
    BadRequest(FormatShown("{}: there is no such field; there are model{}{}", name, known.empty() ? "" : ", ",
                           fmt::to_string(fmt::join(known, ", "))));
  }
}

void RequestInput::ReadJson(const HttpRequest& request) {
  io::Json given = ParseObject(request.body);
  for (const auto& item : given.items()) Add(item.key(), std::move(item.value()));
}

void RequestInput::ReadImages() {
  const auto text = [](const io::Json& value, std::string_view name) -> std::string_view {
    if (!value.is_string()) BadRequest(name, "a text");
    return value.get_ref<const std::string&>();
  };
  if (const io::Json* image = Find("image")) images_.push_back(ReadBase64(text(*image, "image"), "image"));
  if (const io::Json* list = Find("images")) {
    if (list->is_string()) images_.push_back(ReadBase64(text(*list, "images"), "images"));
    if (!list->is_string() && !list->is_array()) BadRequest("images", "a text or a list of texts");
    for (size_t i = 0; list->is_array() && i < list->size(); ++i) {
      const std::string name = fmt::format("images[{}]", i);
      images_.push_back(ReadBase64(text((*list)[i], name), name));
    }
  }
  fields_.erase("image");
  fields_.erase("images");
}

void RequestInput::ReadForm(const HttpRequest& request) {
  for (const FormPart& part : ParseMultipart(request.Header("content-type"), request.body)) {
    if (part.is_file) {
      images_.emplace_back(part.filename.empty() ? part.name : part.filename, part.body);
    } else {
      Add(part.name, std::string(part.body));
      words_.insert(part.name);
    }
  }
}

const std::vector<Upload>& RequestInput::RequireImages() const {
  if (images_.size() > kMaxImages) {
    BadRequest(fmt::format("expected up to {} images, got {}", kMaxImages, images_.size()));
  }
  if (images_.empty()) {
    BadRequest("expected an image: as the body, as a file of a form, or in the field image (base64)");
  }
  return images_;
}

const io::Json* RequestInput::Find(std::string_view name) const {
  const auto found = fields_.find(name);
  return found == fields_.end() || found->is_null() ? nullptr : &*found;
}

std::string RequestInput::Text(std::string_view name, std::string_view usual) const {
  const io::Json* const value = Find(name);
  if (value == nullptr) return std::string(usual);
  if (!value->is_string()) BadRequest(name, "a text");
  return value->get<std::string>();
}

int64_t RequestInput::Integer(std::string_view name, int64_t usual, int64_t least, int64_t most) const {
  const io::Json* const value = Find(name);
  if (value == nullptr) return usual;
  int64_t number = 0;
  const bool fits = IsWord(name) ? Parse(value->get_ref<const std::string&>(), &number)
                    : value->is_number_unsigned()
                        ? (number = static_cast<int64_t>(std::min<uint64_t>(value->get<uint64_t>(), INT64_MAX)), true)
                    : value->is_number_integer() ? (number = value->get<int64_t>(), true)
                                                 : false;
  if (!fits || number < least || number > most) {
    BadRequest(name, fmt::format("a whole number from {} to {}", least, most));
  }
  return number;
}

double RequestInput::Number(std::string_view name, double usual, double least, double most) const {
  const io::Json* const value = Find(name);
  if (value == nullptr) return usual;
  double number = 0;
  const bool fits = IsWord(name) ? Parse(value->get_ref<const std::string&>(), &number)
                                 : value->is_number() && (number = value->get<double>(), true);
  if (!fits || !std::isfinite(number) || number < least || number > most) {
    BadRequest(name, fmt::format("a number from {} to {}", least, most));
  }
  return number;
}

bool RequestInput::Flag(std::string_view name, bool usual) const {
  const io::Json* const value = Find(name);
  if (value == nullptr) return usual;
  if (value->is_boolean()) return value->get<bool>();
  if (IsWord(name) && (*value == "true" || *value == "1")) return true;
  if (IsWord(name) && (*value == "false" || *value == "0")) return false;
  BadRequest(name, "true or false");
}

std::string RequestInput::Choice(const Field& field) const {
  const std::vector<std::string_view> choices = ChoicesOf(field);
  std::string chosen = Text(field.name, choices.front());
  if (std::find(choices.begin(), choices.end(), chosen) == choices.end()) {
    BadRequest(field.name, fmt::to_string(fmt::join(choices, " or ")));
  }
  return chosen;
}

std::vector<std::string> RequestInput::Texts(std::string_view name) const {
  const io::Json* const value = Find(name);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->get<std::string>()};
  if (!value->is_array()) BadRequest(name, "a text or a list of texts");
  std::vector<std::string> texts;
  for (const io::Json& text : *value) {
    if (!text.is_string()) BadRequest(name, "a text or a list of texts");
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

}  // namespace qkv::server
