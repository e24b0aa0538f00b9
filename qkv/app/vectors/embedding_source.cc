#include "qkv/app/vectors/embedding_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "qkv/app/open/parse.h"
#include "qkv/core/hash.h"

namespace qkv::app {
namespace {

// Bytes hashed at each end of a tensor. Training changes the first numbers already.
constexpr size_t kHashedBytes = 64;

void AddBytes(std::span<const std::byte> bytes, Fnv1a& hash) {
  hash.Add({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace

std::string FingerprintWeights(const io::TensorSet& tensors) {
  Fnv1a hash;
  for (const io::StoredTensor& tensor : tensors.tensors()) {  // sorted by name
    hash.Add(tensor.name).Add(FormatShown(" {} {};", Name(tensor.dtype), tensor.shape));
    const size_t part = std::min(kHashedBytes, tensor.bytes.size());
    AddBytes(tensor.bytes.first(part), hash);
    AddBytes(tensor.bytes.last(part), hash);
  }
  return fmt::format("{:016x}", hash.value());
}

std::string FingerprintSettings(const model::Checkpoint& checkpoint) {
  const model::Description& description = checkpoint.description;
  const image::Preprocess& p = description.preprocess;
  const std::string preprocess = fmt::format(
      "{} {} {} {} {} {} {} {} {} {} [{}] {:a} [{:a}] [{:a}] {}", p.channels, static_cast<int>(p.resize),
      p.resize_height, p.resize_width, p.resize_multiple, static_cast<int>(p.filter), static_cast<int>(p.crop),
      p.crop_height, p.crop_width, description.dark_background, fmt::join(p.fill, " "), p.rescale,
      fmt::join(p.mean, " "), fmt::join(p.std, " "), model::Name(description.config.family));
  // Names of classes change no vector.
  io::Json config = checkpoint.files.config;
  if (config.is_object()) {
    for (const char* key : {"id2label", "label2id", "label_names", "label_descriptions"}) config.erase(key);
  }
  return fmt::format("{:016x}", Fnv1a().Add(config.dump()).AddByte(0).Add(preprocess).value());
}

std::string FingerprintSettings(const model::TextCheckpoint& checkpoint) {
  const model::SentenceEmbedding& sentence = checkpoint.description.sentence;
  const std::string pooling = fmt::format("{} {} {} {} {} {}", model::Name(sentence.pool), sentence.normalise,
                                          sentence.length, sentence.pools_prompt, sentence.lower_case, sentence.prompt);
  return fmt::format("{:016x}", Fnv1a().Add(checkpoint.configuration).AddByte(0).Add(pooling).value());
}

std::vector<std::string> CompareSources(const std::string& file, const EmbeddingSource& vectors,
                                        const EmbeddingSource& queries) {
  const auto named = [](const EmbeddingSource& source) {
    return source.model.empty() ? std::string("built-in digits") : source.model;
  };
  const auto sized = [](const EmbeddingSource& source) {
    return source.size.empty() ? std::string("the model's own size") : "--size " + source.size;
  };
  std::vector<std::string> differences;
  if (vectors.weights != queries.weights) {
    differences.push_back(
        FormatShown("{} was embedded by other weights than {}, by {}: scores across models mean "
                    "nothing",
                    file, named(queries), named(vectors)));
  }
  if (vectors.pool != queries.pool) {
    differences.push_back(FormatShown("{} was embedded with --pool {}, the queries are with --pool {}", file,
                                      vectors.pool, queries.pool));
  }
  if (!vectors.settings.empty() && vectors.settings != queries.settings) {
    differences.push_back(
        FormatShown("{} was embedded with another configuration or preprocessing (--set, --mean, --std, …) than the "
                    "queries are: the scores mean little",
                    file));
  }
  if (!vectors.dtype.empty() && vectors.dtype != queries.dtype) {
    differences.push_back(FormatShown("{} was embedded in {}, the queries are in {}: the scores differ a little", file,
                                      vectors.dtype, queries.dtype));
  }
  if (vectors.size != queries.size) {
    differences.push_back(
        FormatShown("{} was embedded at {}, the queries are at {}", file, sized(vectors), sized(queries)));
  }
  return differences;
}

io::Json ToJson(const EmbeddingSource& source) {
  io::Json json = {{"model", source.model}, {"weights", source.weights}, {"pool", source.pool}, {"size", source.size}};
  if (!source.settings.empty()) json["settings"] = source.settings;
  if (!source.dtype.empty()) json["dtype"] = source.dtype;
  return json;
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
  if (!source.size.empty()) source.size = ToText(ParseSize(source.size, FormatShown("{}: \"size\"", where)));
  for (const auto& [key, to] : {std::pair("settings", &source.settings), std::pair("dtype", &source.dtype)}) {
    const auto found = object.find(key);
    if (found != object.end() && found->is_string()) *to = found->get<std::string>();
  }
  return source;
}

}  // namespace qkv::app
