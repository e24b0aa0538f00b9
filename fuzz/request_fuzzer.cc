// Any bytes as each part of a request to the server: its target, its host, a compressed body, a form, JSON with images,
// the tensors of the Open Inference Protocol, immich's entries. Read, or refused with an Error; what is read lies
// within the bytes.
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>

#include "qkv/report/base64.h"
#include "qkv/server/encoding.h"
#include "qkv/server/host.h"
#include "qkv/server/infer_message.h"
#include "qkv/server/multipart.h"
#include "qkv/server/photo_library_request.h"
#include "qkv/server/request_input.h"

namespace {

using namespace qkv::server;

void Check(bool ok) {
  if (!ok) std::abort();
}

void ReadTarget(std::string_view text) {
  if (const auto host = ParseHost(text)) Check(!host->empty() && host->find_first_of("@/ []") == std::string::npos);
  HttpRequest request;
  ParseTarget(text, &request);
  Check(request.path.starts_with('/') && request.path.size() <= text.size());
  Check(request.path.find('\0') == std::string::npos);
}

// The content type stands before the first line end.
HttpRequest Message(std::string_view text, std::string type) {
  HttpRequest request{.method = "POST", .path = "/x", .body = std::string(text)};
  request.headers["content-type"] = std::move(type);
  return request;
}

void ReadForm(std::string_view text) {
  const size_t line = std::min(text.find('\n'), text.size());
  const std::string_view type = text.substr(0, line), body = text.substr(std::min(line + 1, text.size()));
  size_t bytes = 0;
  for (const FormPart& part : ParseMultipart(type, body)) {
    if (part.body.empty()) continue;
    Check(part.body.data() >= body.data() && part.body.data() + part.body.size() <= body.data() + body.size());
    bytes += part.body.size();
  }
  Check(bytes <= body.size());
  ParseLibraryRequest(Message(body, std::string(type)));
}

// Fields of each kind.
void ReadInput(const RequestInput& input) {
  for (const auto& field : input.fields().items()) {
    const std::string name = field.key();
    const auto attempt = [](auto&& read) {
      try {
        read();
      } catch (const HttpError& error) {
        Check(error.status() >= 400 && error.status() < 500);
      }
    };
    attempt([&] {
      const int64_t number = input.Integer(name, 1, -5, 1000);
      Check(number >= -5 && number <= 1000);
    });
    attempt([&] { Check(std::isfinite(input.Number(name, 0, -1e9, 1e9))); });
    attempt([&] { input.Flag(name); });
    attempt([&] { input.Text(name); });
    attempt([&] { input.Texts(name); });
  }
}

void ReadFields(std::string_view text, std::string type) {
  const HttpRequest request = Message(text, std::move(type));
  const RequestInput input(request, {"image", "prompts", "rollout", "threshold", "top"});
  size_t bytes = 0;
  for (const Upload& image : input.images()) bytes += image.bytes().size();
  Check(bytes <= text.size());
  ReadInput(input);
}

void ReadInference(std::string_view text) {
  // The length of the JSON is the first two bytes; 65535: no header of it.
  if (text.size() < 2) return;
  const size_t length = static_cast<uint8_t>(text[0]) + 256 * static_cast<uint8_t>(text[1]);
  HttpRequest request{.method = "POST", .path = "/v2/models/a/infer", .body = std::string(text.substr(2))};
  if (length != 65535) request.headers["inference-header-content-length"] = std::to_string(length);
  const InferRequest parsed = ParseInferRequest(request);
  for (const InferTensor& tensor : parsed.inputs) {
    const size_t elements = tensor.floats.size() + tensor.numbers.size() + tensor.texts.size();
    Check(elements == static_cast<size_t>(tensor.shape.size()) && elements <= text.size());
    if (tensor.numbers.empty()) InferResponse("m", "1", parsed.id, {.outputs = {{tensor, true}, {tensor, false}}});
  }
}

void ReadPacked(std::string_view text) {
  constexpr int64_t kMost = 1 << 20;
  int64_t reserved = 0;
  const std::string body = Gunzip(text, kMost, [&](int64_t bytes) { reserved += bytes; });
  Check(std::ssize(body) <= kMost && std::ssize(body) <= reserved && reserved <= kMost + 1);
  Check(Gunzip(Gzip(body, 1), kMost, [](int64_t) {}) == body);
}

void Read(uint8_t kind, std::string_view text) {
  switch (kind % 8) {
    case 0:
      return ReadTarget(text);
    case 1:
      return ReadForm(text);
    case 2:
      return ReadFields(text, "application/json");
    case 3:
      return ReadFields(text, "multipart/form-data; boundary=b");
    case 4:
      return ReadInference(text);
    case 5:
      ParseLibraryEntries(text);
      return;
    case 6:
      if (const auto bytes = qkv::report::FromBase64(text)) {
        Check(bytes->size() <= text.size());
        Check(qkv::report::FromBase64(qkv::report::Base64(std::as_bytes(std::span(*bytes)))) == bytes);
      }
      ReadBase64(text, "image");
      return;
    default:
      return ReadPacked(text);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  try {
    Read(data[0], {reinterpret_cast<const char*>(data) + 1, size - 1});
  } catch (const qkv::Error&) {
  }
  return 0;
}
