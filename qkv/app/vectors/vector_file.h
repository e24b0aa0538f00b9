// Reads the vectors that EmbeddingTable (embed.h) writes, or that other programs wrote as an array.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/app/vectors/embedding_source.h"
#include "qkv/io/tensor_set.h"

namespace qkv::app {

/// Ties vectors, their names and their source together: checksums that are written with the source. Above 16 MiB the
/// vectors are summed at 256 places; their names are always summed whole.
struct VectorMarks {
  std::string vectors, paths;  // 16 hexadecimal digits; empty: a version without marks wrote the file

  static VectorMarks Of(const io::StoredTensor& vectors, const std::vector<std::string>& paths);
  bool operator==(const VectorMarks&) const = default;
};

/// The source with the marks, as NAME.model.json and the metadata "source" of .safetensors have it.
io::Json ToJson(const EmbeddingSource& source, const VectorMarks& marks);

/// The content of NAME.paths.txt.
std::string PathLines(const std::vector<std::string>& paths);

/// A file of vectors, mapped. Movable, not copyable.
class VectorFile {
 public:
  /// file: .npy (names of the rows in NAME.paths.txt, the source in NAME.model.json; each may be missing), or
  /// .safetensors with "embeddings" (or a single tensor of another name). Throws Error if the array is not [images, D]
  /// of half, bfloat16, float or double with D >= 1, if there is not one name for each row, and if the source has marks
  /// of other vectors or names.
  static VectorFile Open(const std::string& file);

  int64_t count() const { return vectors().shape[0]; }                            // of the vectors
  int64_t width() const { return vectors().shape[1]; }                            // D
  const io::StoredTensor& vectors() const { return tensors_.tensors()[index_]; }  // [count, D]
  /// The name of a row: the path of its image, or "row 17" if no file names the rows.
  std::string Name(int64_t row) const;
  /// Paths of the images, one for each row; empty if no file names them.
  const std::vector<std::string>& paths() const { return paths_; }
  /// A path of an image or a model as qkv embed was given it: valid from any working folder, if the path is relative
  /// and leads to nothing from here.
  std::string Resolve(const std::string& path) const;
  /// What made the vectors, if the file says it.
  const std::optional<EmbeddingSource>& source() const { return source_; }

 private:
  void ReadBeside(const std::string& file);
  void ReadMetadata(std::string_view where);
  void ReadSource(std::string_view json, const std::string& where);
  void RequireTogether(const std::string& file) const;

  std::string file_, from_;  // from_: where qkv embed ran, relative to the folder of file_; may be empty
  io::TensorSet tensors_;
  size_t index_ = 0;  // of the vectors among the tensors
  std::vector<std::string> paths_;
  std::optional<EmbeddingSource> source_;
  VectorMarks marks_;  // as they are written
};

/// The names in NAME.paths.txt, one on each line, see NameOnOneLine.
std::vector<std::string> ParsePathLines(std::string_view text);

/// The name on one line, as GNU coreutils write it: a name with line ends or backslashes begins with a backslash and
/// has \n, \r and \\ in their place.
std::string NameOnOneLine(const std::string& name);

/// out.npy → out.paths.txt and out.model.json
std::string PathsFileOf(std::string_view npy);
std::string SourceFileOf(std::string_view npy);

}  // namespace qkv::app
