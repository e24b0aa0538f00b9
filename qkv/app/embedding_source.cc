#include "qkv/app/embedding_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "qkv/core/hash.h"

namespace qkv::app {
namespace {

// Of each end of a tensor. Training changes the first numbers already.
constexpr size_t kHashedBytes = 64;

void AddBytes(std::span<const std::byte> bytes, Fnv1a& hash) {
  hash.Add({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace

std::string FingerprintWeights(const model::Checkpoint& checkpoint) {
  Fnv1a hash;
  for (const io::StoredTensor& tensor : checkpoint.tensors->tensors()) {  // sorted by name
    hash.Add(tensor.name).Add(FormatShown(" {} {};", Name(tensor.dtype), tensor.shape));
    const size_t part = std::min(kHashedBytes, tensor.bytes.size());
    AddBytes(tensor.bytes.first(part), hash);
    AddBytes(tensor.bytes.last(part), hash);
  }
  return fmt::format("{:016x}", hash.value());
}

io::Json ToJson(const EmbeddingSource& source) {
  return {{"model", source.model}, {"weights", source.weights}, {"pool", source.pool}, {"size", source.size}};
}

EmbeddingSource ParseEmbeddingSource(std::string_view json, std::string_view where) {
  const io::Json object = io::ParseJson(json, where);
  Require(object.is_object(), "{}: expected a JSON object", where);
  EmbeddingSource source;
  for (const auto& [key, to] : {std::pair("model", &source.model), std::pair("weights", &source.weights),
                                std::pair("pool", &source.pool), std::pair("size", &source.size)}) {
    const auto found = object.find(key);
    Require(found != object.end() && found->is_string(), "{}: expected a text \"{}\", got {}", where, key,
            found == object.end() ? "none" : found->type_name());
    *to = found->get<std::string>();
  }
  return source;
}

}  // namespace qkv::app
