// The JSON of an inference request (v2). The numbers of its tensors may be millions, so they are taken out while it is
// parsed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/core/tensor.h"
#include "qkv/io/json.h"

namespace qkv::server {

/// Limit of the texts, or rows of ids, of one tensor.
inline constexpr int64_t kMaxInferTexts = 2048;

/// The elements of a list "data", which may be nested.
struct InferData {
  std::vector<int64_t> integers;   // as long as all are whole numbers of 64 bits
  std::vector<float> floats;       // else
  std::vector<std::string> texts;  // or texts
  std::vector<int64_t> extents;    // of the lists, outermost first
  std::string fault;               // description of what is not equal lists of numbers or of texts; or empty

  int64_t size() const { return std::ssize(integers) + std::ssize(floats) + std::ssize(texts); }
  /// True if it is one list of `shape`'s size, or lists in lists as `shape` says.
  bool Fits(const Shape& shape) const;
};

struct InferJson {
  io::Json json;                // an object; each "data" of "inputs" is an empty list
  std::vector<InferData> data;  // of each object in "inputs"
};

/// Throws HttpError 400 if the text is no JSON object, for more than kMaxValues values beside the tensors', and for a
/// tensor of more than four million numbers or kMaxInferTexts texts.
InferJson ParseInferJson(std::string_view text);

}  // namespace qkv::server
