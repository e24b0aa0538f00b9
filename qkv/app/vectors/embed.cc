#include "qkv/app/vectors/embed.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "qkv/app/open/json_line.h"
#include "qkv/app/vectors/vector_file.h"
#include "qkv/core/file_set.h"
#include "qkv/io/float_list.h"
#include "qkv/io/npy.h"
#include "qkv/io/safetensors.h"
#include "qkv/model/blocks/unit_rows.h"
#include "qkv/model/two_tower.h"
#include "qkv/report/text.h"

namespace qkv::app {

io::Json ToJson(const Embedding& embedding) {
  io::Json json = {{"path", embedding.path}};
  if (embedding.shape.rank() == 1) {
    json["embedding"] = io::FloatList(embedding.values);
    return json;
  }
  const int64_t D = embedding.shape[1];
  for (auto row = embedding.values.begin(); row != embedding.values.end(); row += D) {
    json["tokens"].push_back(io::FloatList({row, row + D}));
  }
  return json;
}

Embedding PoolEmbedding(const model::Model& model, Pooling pooling, const std::string& path, View<const float> values) {
  if (pooling == Pooling::kModel) {
    return {.path = path, .shape = Shape({values.size()}), .values = {values.data(), values.data() + values.size()}};
  }
  const int64_t D = values.dim(values.rank() - 1), N = values.size() / D;
  const int64_t width = model::PooledWidth(model.config(), pooling);
  Embedding embedding{
      .path = path, .shape = pooling == Pooling::kTokens ? Shape({N, D}) : Shape({width}), .values = {}};
  embedding.values.resize(static_cast<size_t>(embedding.shape.size()));
  model::PoolTokens(model.config(), pooling, values.reshape({N, D}), embedding.values.data());
  return embedding;
}

int Embed(const model::Model& model, const ImageList& images, const EmbedOptions& options,
          const std::function<void(std::span<const Embedding>)>& use) {
  const Pooling pooling = options.pooling;
  model::RequirePooling(model.config(), pooling);
  const Wanted wanted = pooling == Pooling::kModel ? Wanted::kPooled : Wanted::kTokens;
  std::vector<Embedding> results;
  return ForEachBatch(options.pipeline, images, model, wanted, [&](const Batch& batch) {
    results.resize(batch.paths.size());
    for (size_t b = 0; b < results.size(); ++b) {
      Embedding& embedding = results[b];
      embedding = PoolEmbedding(model, pooling, batch.paths[b], batch.values[static_cast<int64_t>(b)]);
      embedding.file = batch.files[b];
      if (options.unit_length && pooling == Pooling::kModel) {
        Require(model::NormaliseRows(View<float>(embedding.values.data(), {1, std::ssize(embedding.values)})) < 0,
                "embed: {}: its vector has no direction", embedding.path);
      }
    }
    use(results);
  });
}

namespace {

// The working folder relative to the file's, since relative paths begin there.
std::string WorkingFolderFrom(const std::string& file) {
  const std::filesystem::path here = std::filesystem::current_path();
  return here.lexically_relative((here / file).lexically_normal().parent_path()).string();
}

}  // namespace

EmbeddingTable::EmbeddingTable(std::string file, EmbeddingSource source, bool of_texts)
    : file_(std::move(file)), source_(std::move(source)), of_texts_(of_texts) {
  Require(IsNpy() || IsCsv() || file_.ends_with(".safetensors"), "embed: -o ends in .npy, .safetensors or .csv, got {}",
          file_);
}

// NumPy's format has no place for names: they lie beside it.
std::vector<std::string> EmbeddingTable::outputs() const {
  if (!IsNpy()) return {file_};
  return {file_, PathsFileOf(file_), SourceFileOf(file_)};
}

void EmbeddingTable::Add(const Embedding& embedding) {
  Require(empty() || embedding.shape == shape_,
          "embed: images of different sizes have different numbers of tokens; leave out -o or give --size");
  Require(!IsCsv() || embedding.shape.rank() == 1,
          "embed: a .csv has one vector of an image, and --pool tokens gives several; write .npy or .safetensors");
  shape_ = embedding.shape;
  paths_.push_back(embedding.path);
  values_.insert(values_.end(), embedding.values.begin(), embedding.values.end());
}

void EmbeddingTable::SaveCsv() const {
  const auto width = static_cast<size_t>(shape_[0]);
  WriteFile(file_, [&](FileSink& sink) {
    std::string line = of_texts_ ? "text" : "path";
    for (size_t d = 0; d < width; ++d) line += fmt::format(",x{}", d);
    sink.Write(line + "\n");
    for (size_t i = 0; i < paths_.size(); ++i) {
      line = report::EscapeCsv(paths_[i]);
      for (size_t d = 0; d < width; ++d) line += fmt::format(",{}", values_[i * width + d]);
      sink.Write(line + "\n");
    }
  });
}

void EmbeddingTable::Save() const {
  Require(!empty(), "embed: no image could be read, nothing was written");
  if (IsCsv()) return SaveCsv();
  std::vector<int64_t> extents = {std::ssize(paths_)};
  extents.insert(extents.end(), shape_.extents().begin(), shape_.extents().end());
  const View<const float> array(values_.data(), Shape(extents));
  const io::StoredTensor stored = io::Stored<float>("embeddings", array);
  const auto source = [&](const std::vector<std::string>& names) {
    io::Json json = ToJson(source_, VectorMarks::Of(stored, names));
    json["from"] = WorkingFolderFrom(file_);
    return JsonLine(json);
  };
  if (IsNpy()) {
    FileSet files;
    files.Add(file_, [&](FileSink& sink) { io::WriteNpy<float>(sink, array); });
    files.Add(PathsFileOf(file_), PathLines(paths_));
    files.Add(SourceFileOf(file_), source(paths_) + "\n");
    files.Publish();
    return;
  }
  const std::string paths = io::Json(paths_).dump(-1, ' ', false, io::Json::error_handler_t::replace);
  // As readers will see them: without bytes that are not UTF-8.
  const auto names = io::ParseJson(paths, file_).get<std::vector<std::string>>();
  io::WriteSafeTensors(file_, {stored}, {{"paths", paths}, {"source", source(names)}});
}

}  // namespace qkv::app
