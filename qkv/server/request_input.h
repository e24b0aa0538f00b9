// The fields and images of a request: as JSON, as a form, or as an image alone with a query.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/io/json.h"
#include "qkv/server/fields.h"
#include "qkv/server/http_message.h"

namespace qkv::server {

/// The bytes of an image file, with its name in errors and answers. A copy refers to the same bytes.
class Upload {
 public:
  /// Refers to bytes that outlive it, such as a request's.
  Upload(std::string name, std::string_view bytes) : name_(std::move(name)), bytes_(bytes) {}
  /// Owns its bytes.
  Upload(std::string name, std::shared_ptr<const std::string> bytes)
      : name_(std::move(name)), own_(std::move(bytes)), bytes_(*own_) {}

  const std::string& name() const { return name_; }
  std::string_view bytes() const { return bytes_; }
  std::span<const std::byte> data() const { return std::as_bytes(std::span(bytes_)); }

 private:
  std::string name_;
  std::shared_ptr<const std::string> own_;  // of an image that came as base64
  std::string_view bytes_;
};

/// Limit of the images in one request: their pixels are in memory together.
inline constexpr size_t kMaxImages = 256;
/// Limit of the values in a request's JSON, without the tensors of /v2: each takes up to about 100 bytes once parsed.
inline constexpr size_t kMaxValues = size_t{1} << 16;

/// The fields and images of one request.
class RequestInput {
 public:
  /// Takes a body of application/json, multipart/form-data, image/* or application/octet-stream; fields may be in the
  /// query too. "image" and "images" are data URIs or base64, and not among the fields afterwards; "image" in `known`
  /// says that the request may have images. They refer to the request's body. Throws HttpError 400 for a malformed
  /// body, a field that is neither "model" nor in `known`, and a repeated field; 415 for another type.
  RequestInput(const HttpRequest& request, const FieldNames& known);
  RequestInput(HttpRequest&&, const FieldNames&) = delete;
  /// Fields alone: an object. Throws HttpError 400 for a field that is not in `known`.
  RequestInput(io::Json fields, const FieldNames& known);

  const io::Json& fields() const { return fields_; }
  bool Has(std::string_view name) const { return Find(name) != nullptr; }
  const std::vector<Upload>& images() const { return images_; }
  /// Throws HttpError 400 if there is none, or more than kMaxImages.
  const std::vector<Upload>& RequireImages() const;

  /// A field, or `usual` if it is missing or null. Throw HttpError 400, with the field's name, if it has another type
  /// or is out of range. Numbers and switches in forms and queries are texts.
  std::string Text(std::string_view name, std::string_view usual = "") const;
  int64_t Integer(std::string_view name, int64_t usual, int64_t least, int64_t most) const;
  double Number(std::string_view name, double usual, double least, double most) const;
  bool Flag(std::string_view name, bool usual = false) const;
  /// Within the field's bounds.
  int64_t Integer(const Field& field, int64_t usual) const {
    return Integer(field.name, usual, static_cast<int64_t>(field.low), static_cast<int64_t>(field.high));
  }
  double Number(const Field& field, double usual) const { return Number(field.name, usual, field.low, field.high); }
  /// One of the field's choices; the first if it is missing.
  std::string Choice(const Field& field) const;
  /// A text, or a list of texts.
  std::vector<std::string> Texts(std::string_view name) const;

 private:
  void ReadJson(const HttpRequest& request);
  void ReadForm(const HttpRequest& request);
  void ReadImages();
  void Add(const std::string& name, io::Json value);
  void RequireKnown(const FieldNames& known) const;
  const io::Json* Find(std::string_view name) const;  // null if it is missing or null
  bool IsWord(std::string_view name) const { return words_.contains(name); }

  io::Json fields_ = io::Json::object();
  std::set<std::string, std::less<>> words_;  // fields of forms and queries, whose numbers and switches are texts
  std::vector<Upload> images_;
};

/// The image in a data URI ("data:image/png;base64,…") or in base64 alone. Throws HttpError 400 if it is neither; also
/// for a web address: this server fetches nothing.
Upload ReadBase64(std::string_view text, std::string_view name);

/// JSON of a request, up to kMaxValues values and 64 deep. Throws HttpError 400, prefixed with `where`, if it is
/// malformed.
io::Json ParseRequestJson(std::string_view text, std::string_view where);
/// An object; likewise.
io::Json ParseObject(std::string_view body);

}  // namespace qkv::server
