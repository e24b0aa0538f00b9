// The safetensors format: a strict reader on mapped memory, sharded checkpoints, and a writer.
// Not here: what the tensors mean (model).
#pragma once

#include <cstddef>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/core/dtype.h"
#include "qkv/core/file.h"
#include "qkv/core/tensor.h"

namespace qkv::io {

/// A file of tensors, mapped.
struct TensorFile {
  std::filesystem::path path;  // as it was opened
  MappedFile mapped;           // its bytes

  /// Throws Error that names the file when it changed after it was opened, see MappedFile.
  void RequireUnchanged() const { mapped.RequireUnchanged(path.native()); }
};

/// One tensor as it lies in a file. `bytes` may be misaligned: old writers did not pad their header.
struct StoredTensor {
  std::string name;                  // unique within a file
  DType dtype = DType::kF32;         // of the elements
  Shape shape;                       // extents, outermost first
  std::span<const std::byte> bytes;  // elements in row-major order, little-endian
  const TensorFile* file = nullptr;  // where the bytes are mapped from; null for bytes in memory
};

/// The elements of an F32, F16, BF16 or F64 tensor, converted. Throws Error for other types, and when the tensor's file
/// changed after it was opened.
template <typename T>
Tensor<T> Convert(const StoredTensor& tensor);

/// The same into given memory of tensor.shape.size() elements.
template <typename T>
void ConvertTo(const StoredTensor& tensor, T* out);

/// A checkpoint: one file, or the shards that an index names. Holds the mapping; the tensors' bytes point into it.
class SafeTensors {
 public:
  SafeTensors() = default;
  /// `path`: a .safetensors file, a .safetensors.index.json, or a folder that holds model.safetensors or its index.
  /// Throws Error that names the file and the tensor for anything that the format forbids: a header longer than the
  /// file or 100,000,000 bytes, JSON that is not a flat table, duplicate names, unknown types, shapes that overflow or
  /// disagree with their bytes, offsets that overlap, leave holes or miss the end; for shards also a tensor that the
  /// index names and no shard holds, one that no index names, and shards outside the folder.
  static SafeTensors Open(const std::filesystem::path& path);
  /// The same of bytes in memory, which must outlive the result. `where` begins the errors.
  static SafeTensors FromBytes(std::span<const std::byte> bytes, std::string_view where);

  /// Sorted by name.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  /// Null when there is none of that name.
  const StoredTensor* Find(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }  // of the header
  size_t bytes() const;                                                             // of all tensors together
  using File = TensorFile;                                                          // a file of tensors, mapped
  /// None of bytes in memory.
  const std::deque<File>& files() const { return files_; }
  /// Throws Error that names the file when one changed after it was opened: to be called after `bytes` were
  /// used as they are. Convert and WriteSafeTensors call it themselves. One system call a file.
  void RequireUnchanged() const;

 private:
  static SafeTensors OpenShards(const std::filesystem::path& index);
  /// Maps one more file and returns what it holds, its tensors unsorted among those of other files.
  SafeTensors AddFile(const std::filesystem::path& path);

  std::deque<File> files_;  // tensors point to its elements, which stay where they are
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// Writes a file whole or not at all (not at all, too, when a tensor's own file changed after it was opened); tensors
/// in descending alignment, then by name, as the original library does. With an `alignment` (a multiple of 8) all
/// tensors that are so many bytes, or a multiple, lie at such multiples in the file; those that are not come last.
void WriteSafeTensors(const std::filesystem::path& path, std::vector<StoredTensor> tensors,
                      const std::map<std::string, std::string>& metadata = {}, size_t alignment = 0);

/// How a dense view is stored, under a name.
template <typename T>
StoredTensor Stored(std::string name, View<const T> view);

}  // namespace qkv::io
