// Vectors of images.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/app/images/pipeline.h"
#include "qkv/app/vectors/embedding_source.h"
#include "qkv/io/json.h"
#include "qkv/model/pooling.h"

namespace qkv::app {

using model::Pooling;

/// "model", "cls", "mean", "cls+mean" or "tokens". Throws Error that begins with `option` otherwise.
Pooling ParsePooling(std::string_view name, std::string_view option);

struct Embedding {
  std::string path;
  Shape shape;  // [D], or [N, D] for kTokens
  std::vector<float> values;
  size_t file = 0;  // index in the list of images
};

/// {"path", "embedding": [D]}, or {"path", "tokens": [N, D]}
io::Json ToJson(const Embedding& embedding);

/// The vector of an image, not normalised. values: [D], pooled by the model, for kModel; else the tokens after the last
/// norm, [N, D].
Embedding PoolEmbedding(const model::Model& model, Pooling pooling, const std::string& path, View<const float> values);

struct EmbedOptions {
  bool unit_length = false;  // vectors of Pooling::kModel become of length 1, as both towers' are compared
  Pooling pooling = Pooling::kModel;
  PipelineOptions pipeline;
};

/// Embeds the images in their order; `use` receives a batch of results at a time, as in ForEachBatch. Returns the
/// number of images left out. Throws Error if kClassToken is requested and the model has none, and as ForEachBatch.
int Embed(const model::Model& model, const ImageList& images, const EmbedOptions& options,
          const std::function<void(std::span<const Embedding>)>& use);

/// The embeddings of many images as one array in a file.
class EmbeddingTable {
 public:
  /// `file` ends in .csv (a row for each image: its path, then its vector), .npy (beside it are the paths, a line each,
  /// in NAME.paths.txt, and `source` in NAME.model.json) or .safetensors (both are metadata). Throws Error otherwise.
  /// vector_file.h reads them. of_texts: the paths are texts.
  EmbeddingTable(std::string file, EmbeddingSource source, bool of_texts = false);

  /// The files that Save writes.
  std::vector<std::string> outputs() const;
  bool empty() const { return paths_.empty(); }

  /// Throws Error if the shape is not that of the embeddings before.
  void Add(const Embedding& embedding);
  /// Writes [images, D] or [images, N, D], each file whole or not at all, and the .npy last (FileSet).
  void Save() const;

 private:
  bool IsNpy() const { return file_.ends_with(".npy"); }
  bool IsCsv() const { return file_.ends_with(".csv"); }
  void SaveCsv() const;

  std::string file_;
  EmbeddingSource source_;
  std::vector<std::string> paths_;
  std::vector<float> values_;
  bool of_texts_;
  Shape shape_;  // of one image
};

}  // namespace qkv::app
