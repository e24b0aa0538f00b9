// What a model's files say.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "qkv/app/open/model_entry.h"
#include "qkv/core/file.h"
#include "qkv/model/checkpoint/any_checkpoint.h"

namespace qkv::app {

/// What a model's files say, with the entry's size and labels.
struct ModelFacts {
  std::optional<model::Description> images;     // for an image model, also with a text tower or a decoder
  std::optional<model::TextDescription> texts;  // for a text model
  std::optional<model::SequenceConfig> sequences;
  model::VitConfig config;                      // of `images`, at the size that images become
  std::string pool;                             // of embeddings, as embed --pool
  int64_t parameters = 0;                       // elements of the stored tensors
  int64_t expected_bytes = 0;                   // estimate of what the weights take in memory
  bool translates = false, summarizes = false;  // tasks of an encoder-decoder of texts

  model::ModelKind kind() const;
  bool is_image() const { return images.has_value(); }
  bool is_text() const { return texts.has_value(); }
  bool writes_text() const { return texts && texts->decoder; }
  bool has_text_tower() const { return images && images->text; }
  /// An image model with classes, not compared with texts.
  bool has_classifier() const { return images && !images->text && config.classes > 0; }
  /// For programs: "image", "towers" (images and texts), "text", "pair" (an encoder-decoder of texts), or "sequence".
  std::string_view kind_name() const;
};

/// The facts of an open model. entry: what the user said about it.
ModelFacts DescribeModel(const model::AnyCheckpoint& checkpoint, const ModelEntry& entry);
/// The facts of a model in a list. Reads configuration and headers, and builds nothing. Throws Error as
/// OpenAnyCheckpoint and RequireListed.
ModelFacts DescribeModel(const ModelEntry& entry);

/// Throws Error for a sequence model of qkv train, which no list has: it has no tokenizer and no class.
void RequireListed(const ModelFacts& facts, const ModelEntry& entry);

/// The id of a model that is given by its path alone: the path's last part.
std::string IdOfPath(const std::string& path);

/// The files of a model when they were read; empty for the built-in one.
using FileStamps = std::map<std::filesystem::path, FileStamp>;
FileStamps StampFiles(const ModelEntry& entry);

}  // namespace qkv::app
