// What a request gives: fields and images, as JSON, as a form, or as an image alone with a query.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/io/json.h"
#include "qkv/server/http_message.h"

namespace qkv::server {

/// The bytes of an image file, with the name that errors and answers give it.
struct Upload {
  std::string name;
  std::string bytes;

  std::span<const std::byte> data() const { return std::as_bytes(std::span(bytes)); }
};

/// Images of one request at most: their pixels are in memory together.
inline constexpr size_t kMostImages = 256;

/// The fields and images of one request.
class RequestInput {
 public:
  /// Takes a body of application/json, multipart/form-data, image/* or application/octet-stream; fields may be in the
  /// query too. Images of JSON are the fields "image" and "images": data URIs or base64. Throws HttpError 400 for a
  /// body that is not well formed, and 415 for another type.
  explicit RequestInput(const HttpRequest& request);
  /// Fields alone: an object.
  explicit RequestInput(io::Json fields) : fields_(std::move(fields)) {}

  const io::Json& fields() const { return fields_; }
  bool Has(std::string_view name) const { return fields_.contains(name) && !fields_[std::string(name)].is_null(); }
  const std::vector<Upload>& images() const { return images_; }
  /// Throws HttpError 400 if there is none.
  const std::vector<Upload>& RequireImages() const;

  /// A field, or `usual` if it is missing. Throw HttpError 400, with the field's name, if it is of another kind or out
  /// of range. Numbers and switches of forms and queries are texts.
  std::string Text(std::string_view name, std::string_view usual = "") const;
  int64_t Integer(std::string_view name, int64_t usual, int64_t least, int64_t most) const;
  double Number(std::string_view name, double usual, double least, double most) const;
  bool Flag(std::string_view name, bool usual = false) const;
  /// A text, or a list of texts.
  std::vector<std::string> Texts(std::string_view name) const;

 private:
  void ReadJson(const HttpRequest& request);
  void ReadForm(const HttpRequest& request);
  /// Throws HttpError 400 for a field that is there already.
  void RequireNew(const std::string& name) const;
  bool IsWord(std::string_view name) const { return words_.contains(name); }

  io::Json fields_ = io::Json::object();
  std::set<std::string, std::less<>> words_;  // fields of forms and queries, whose numbers and switches are texts
  std::vector<Upload> images_;
};

/// The image of a data URI ("data:image/png;base64,…") or of base64 alone. Throws HttpError 400 if it is neither; also
/// for an address of the web: this server fetches nothing.
std::string ImageBytes(std::string_view text, std::string_view name);

/// An object from a body, or a part of one. Throws HttpError 400 if it is none.
io::Json ParseObject(std::string_view body);

}  // namespace qkv::server
