// The safetensors format: a strict reader on mapped memory, sharded checkpoints, and a writer. Not here: the meaning of
// tensors (model).
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

/// A file begins with the length of its header, little-endian, in so many bytes; readers accept headers up to the limit.
inline constexpr size_t kLengthBytes = 8, kMaxHeaderBytes = 100'000'000;

/// A file of tensors, mapped.
struct TensorFile {
  std::filesystem::path path;  // as passed to Open
  MappedFile mapped;           // its bytes

  /// Throws Error, with the file's name, if the file changed since it was opened, see MappedFile.
  void RequireUnchanged() const { mapped.RequireUnchanged(path.native()); }
};

/// One stored tensor. `bytes` may be misaligned: old writers did not pad their header.
struct StoredTensor {
  std::string name;                  // unique within a file
  DType dtype = DType::kF32;         // of the elements
  Shape shape;                       // extents, outermost first
  std::span<const std::byte> bytes;  // elements in row-major order, little-endian
  const TensorFile* file = nullptr;  // file that the bytes are mapped from; null for bytes in memory
};

/// Converts the elements of an F32, F16, BF16 or F64 tensor. Throws Error for other types, and if the tensor's file
/// changed since it was opened.
template <typename T>
Tensor<T> Convert(const StoredTensor& tensor);

/// The same into `out`, which has room for tensor.shape.size() elements.
template <typename T>
void ConvertTo(const StoredTensor& tensor, T* out);

/// A checkpoint: one file, or the shards of an index. Owns the mapping that the tensors' bytes point into.
class SafeTensors {
 public:
  SafeTensors() = default;
  /// `path`: a .safetensors file, a .safetensors.index.json, or a folder with model.safetensors or its index. Throws
  /// Error, with the file and the tensor, for everything the format forbids: a header longer than the file or
  /// 100,000,000 bytes, JSON that is not a flat table, duplicate names, unknown types, shapes that overflow or disagree
  /// with their bytes, offsets that overlap, leave gaps or miss the end; for shards also tensors that are indexed but
  /// missing, tensors that are not indexed, and shards outside the folder.
  static SafeTensors Open(const std::filesystem::path& path);
  /// The same for bytes in memory, which must outlive the result. `where` is the prefix of errors.
  static SafeTensors FromBytes(std::span<const std::byte> bytes, std::string_view where);

  /// Sorted by name.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  /// Null if there is no tensor of that name.
  const StoredTensor* Find(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }  // of the header
  size_t bytes() const;                                                             // of all tensors together
  using File = TensorFile;                                                          // a file of tensors, mapped
  /// Empty for bytes in memory.
  const std::deque<File>& files() const { return files_; }
  /// Throws Error, with the file's name, if a file changed since it was opened. Call it after using `bytes` directly;
  /// Convert and WriteSafeTensors call it themselves. One system call per file.
  void RequireUnchanged() const;

 private:
  static SafeTensors OpenShards(const std::filesystem::path& index);
  /// Maps one more file and returns its contents; tensors stay unsorted.
  SafeTensors AddFile(const std::filesystem::path& path);

  std::deque<File> files_;  // tensors point to elements, whose addresses are stable
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// Writes a file atomically; writes nothing if a tensor's source file changed since it was opened. Tensors are in
/// descending order of their type's alignment, then by name, as in the original library. With an `alignment` (a
/// multiple of 8), tensors whose size is a multiple of it start at multiples of it in the file; the others come last.
void WriteSafeTensors(const std::filesystem::path& path, std::vector<StoredTensor> tensors,
                      const std::map<std::string, std::string>& metadata = {}, size_t alignment = 0);

/// A dense view as a stored tensor of this name.
template <typename T>
StoredTensor Stored(std::string name, View<const T> view);

}  // namespace qkv::io
