// What made the vectors of a file, written beside them: a query is compared with vectors of the same kind only.
#pragma once

#include <string>
#include <string_view>

#include "qkv/io/json.h"
#include "qkv/model/checkpoint/checkpoint.h"

namespace qkv::app {

struct EmbeddingSource {
  std::string model;    // as the user named it; empty: the built-in digit classifier
  std::string weights;  // FingerprintWeights
  std::string pool;     // the option --pool
  std::string size;     // the option --size; empty: the model's own

  bool operator==(const EmbeddingSource&) const = default;
};

/// Of the tensors' names, types, shapes, and first and last bytes: 16 hexadecimal digits. It tells models apart and
/// costs no pass over the weights.
std::string FingerprintWeights(const model::Checkpoint& checkpoint);

/// {"model", "weights", "pool", "size"}
io::Json ToJson(const EmbeddingSource& source);
/// Throws Error, prefixed with `where`, if it is not what ToJson makes.
EmbeddingSource ParseEmbeddingSource(std::string_view json, std::string_view where);

}  // namespace qkv::app
