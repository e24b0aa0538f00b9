// What made the vectors of a file, written beside them: a query is compared with vectors of the same kind only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "qkv/io/json.h"
#include "qkv/model/checkpoint/checkpoint.h"
#include "qkv/model/checkpoint/text_checkpoint.h"

namespace qkv::app {

struct EmbeddingSource {
  std::string model;    // as the user named it; empty: the built-in digit classifier
  std::string weights;  // FingerprintWeights
  std::string pool;     // the option --pool
  std::string size;     // the option --size; empty: the model's own
  // Missing in files of older versions.
  std::string settings = {};  // FingerprintSettings
  std::string dtype = {};     // the precision, "fp32"

  bool operator==(const EmbeddingSource&) const = default;
};

/// Hash of the tensors' names, types, shapes, and first and last bytes: 16 hexadecimal digits. It tells models apart
/// and costs no pass over the weights.
std::string FingerprintWeights(const io::TensorSet& tensors);

/// Hash of the configuration and the preprocessing, with all that the caller gave (--set, --mean, …) except the labels:
/// 16 hexadecimal digits.
std::string FingerprintSettings(const model::Checkpoint& checkpoint);
/// Hash of the configuration and how tokens become a vector.
std::string FingerprintSettings(const model::TextCheckpoint& checkpoint);

/// What makes the scores of queries against the vectors of a file mean little, or differ a little: a sentence each.
std::vector<std::string> CompareSources(const std::string& file, const EmbeddingSource& vectors,
                                        const EmbeddingSource& queries);

/// {"model", "weights", "pool", "size", "settings", "dtype"}, the last two only if they are there
io::Json ToJson(const EmbeddingSource& source);
/// Throws Error, prefixed with `where`, if it is not what ToJson makes.
EmbeddingSource ParseEmbeddingSource(std::string_view json, std::string_view where);

}  // namespace qkv::app
