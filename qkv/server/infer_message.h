// Requests and answers of the Open Inference Protocol (v2) as bytes: JSON, and JSON followed by the tensors' bytes (its
// binary extension). Not here: what the tensors mean (infer_model.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/core/tensor.h"
#include "qkv/io/json.h"
#include "qkv/server/http_message.h"

namespace qkv::server {

/// A tensor of a type that models here read and write. One of the lists has its elements.
struct InferTensor {
  std::string name;
  std::string datatype;            // "FP32", "INT32", "INT64" or "BYTES"
  Shape shape;                     // its size is the number of elements
  std::vector<float> floats;       // FP32
  std::vector<int64_t> numbers;    // INT32, INT64
  std::vector<std::string> texts;  // BYTES
  bool binary = false;             // came as bytes: elements of BYTES are not base64
};

/// An output that a request asks for.
struct WantedOutput {
  std::string name;
  bool binary = false;
  int64_t classes = 0;  // "classification": so many of the greatest, as "score:index:label"; 0: the numbers
};

struct InferRequest {
  std::string id;
  io::Json parameters = io::Json::object();
  std::vector<InferTensor> inputs;
  std::vector<WantedOutput> outputs;  // empty: those that the model has for its inputs
  bool binary = false;                // how outputs come that are not asked for by name
  // The body, if it is one element of BYTES (Inference-Header-Content-Length: 0).
  std::optional<std::string_view> raw;
};

/// Throws HttpError 400 that says what is wrong; 415 for shared memory, which this server does not support.
InferRequest ParseInferRequest(const HttpRequest& request);

/// One output of an answer, in the form in which it is sent.
struct InferOutput {
  InferTensor tensor;
  bool binary = false;
};

struct InferAnswer {
  std::vector<InferOutput> outputs;
  bool truncated = false;  // texts had more tokens than the model reads
};

/// The answer; with Inference-Header-Content-Length if an output is binary.
HttpResponse InferResponse(const std::string& model, const std::string& version, const std::string& id,
                           const InferAnswer& answer);

}  // namespace qkv::server
