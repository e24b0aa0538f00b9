// The tensors of a checkpoint by name, whatever the format of its files, and the memory that they lie in. Not here: the
// formats (safetensors.h, torch_file.h), and which of them a path is (weights.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/core/dtype.h"
#include "qkv/core/file.h"
#include "qkv/core/tensor.h"
#include "qkv/io/crc32.h"

namespace qkv::io {

/// A file of tensors, mapped.
struct TensorFile {
  std::filesystem::path path;  // as passed to Open
  MappedFile mapped;           // its bytes

  /// Throws Error, with the file's name, if the file changed since it was opened, see MappedFile.
  void RequireUnchanged() const { mapped.RequireUnchanged(path.native()); }
};

/// One stored tensor. `bytes` may be misaligned: old writers did not pad their header.
struct StoredTensor {
  std::string name;                          // unique within a file
  DType dtype = DType::kF32;                 // of the elements
  Shape shape;                               // extents, outermost first
  std::span<const std::byte> bytes;          // elements in row-major order, little-endian
  const TensorFile* file = nullptr;          // file that the bytes are mapped from; null for bytes in memory
  const StoredChecksum* checksum = nullptr;  // of a range with these bytes, if the file has one

  /// Throws Error if the file changed since it was opened, or if these bytes are damaged. Whatever uses `bytes`
  /// directly calls it afterwards, before its result is used.
  void RequireIntact() const {
    if (file != nullptr) file->RequireUnchanged();
    if (checksum != nullptr) checksum->RequireIntact();
  }
};

/// Converts the elements of an F32, F16, BF16 or F64 tensor. Throws Error for other types, and if the tensor's file
/// changed since it was opened or is damaged.
template <typename T>
Tensor<T> Convert(const StoredTensor& tensor);

/// The same into `out`, which has room for tensor.shape.size() elements.
template <typename T>
void ConvertTo(const StoredTensor& tensor, T* out);

/// The tensors of one or several files. Owns the memory that their bytes point into. Movable, not copyable.
class TensorSet {
 public:
  using File = TensorFile;  // a file of tensors, mapped

  /// Sorted by name.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  /// Null if there is no tensor of that name.
  const StoredTensor* Find(std::string_view name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }  // of the files
  /// Choices that a reader had to make, a sentence each: which of several state dicts was read, for example.
  const std::vector<std::string>& remarks() const { return remarks_; }
  size_t bytes() const;  // of all tensors together
  /// Empty for bytes in memory.
  const std::deque<File>& files() const { return files_; }
  /// Throws Error, with the file's name, if a file changed since it was opened. Call it after using `bytes` directly;
  /// Convert and WriteSafeTensors call it themselves. One system call per file.
  void RequireUnchanged() const;

  /// Removes the prefix that all names share, as often as one of `prefixes` fits, and returns what was removed. Tensors
  /// without it are dropped, and named in remarks(), if those with it hold a model: one whose name ends like one of
  /// `anchors`, which no other tensor's does. Nothing goes once a name is `base` and an anchor: a model's own prefix
  /// that wrappers have, too.
  std::string StripPrefixes(std::span<const std::string_view> prefixes, std::span<const std::string_view> anchors = {},
                            std::string_view base = "");

  // For readers of formats.

  /// Maps one more file; the reference stays valid.
  const File& Map(const std::filesystem::path& path);
  /// Keeps bytes of tensors that do not lie in a file as they are; the result stays valid.
  std::span<const std::byte> Keep(std::vector<std::byte> bytes);
  /// Keeps a checksum for tensors that it belongs to; the result stays valid.
  const StoredChecksum* Keep(std::span<const std::byte> bytes, uint32_t crc, std::string what) {
    return &checksums_.emplace_back(bytes, crc, std::move(what));
  }
  /// One more tensor, in any order; Finish follows.
  void Add(StoredTensor tensor) { tensors_.push_back(std::move(tensor)); }
  /// Entries that are there already stay.
  void AddMetadata(std::map<std::string, std::string> metadata) { metadata_.merge(metadata); }
  void DropUnprefixed(std::span<const std::string_view> prefixes, std::span<const std::string_view> anchors);

  /// One more of remarks().
  void AddRemark(std::string remark) { remarks_.push_back(std::move(remark)); }
  /// Sorts the tensors. Throws Error, with the prefix `where`, if two have the same name.
  void Finish(std::string_view where);

 private:
  std::deque<File> files_;  // tensors point to elements, whose addresses are stable
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::string> metadata_;
  std::deque<std::vector<std::byte>> memory_;
  std::deque<StoredChecksum> checksums_;
  std::vector<std::string> remarks_;
};

}  // namespace qkv::io
