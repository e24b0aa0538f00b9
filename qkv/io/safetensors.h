// The safetensors format: a strict reader on mapped memory, sharded checkpoints, and a writer. Not here: other formats
// of weights (weights.h), the meaning of tensors (model).
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/core/tensor.h"
#include "qkv/io/tensor_set.h"

namespace qkv::io {

/// A file begins with the length of its header, little-endian, in so many bytes.
inline constexpr size_t kLengthBytes = 8;
/// Longest header that readers accept.
inline constexpr size_t kMaxHeaderBytes = 100'000'000;

/// The tensors of one safetensors file, or of the shards of an index.
class SafeTensors : public TensorSet {
 public:
  SafeTensors() = default;
  /// `path`: a .safetensors file, a .safetensors.index.json, or a folder with model.safetensors or its index. Throws
  /// Error, with the file and the tensor, for everything the format forbids: a header longer than the file or
  /// 100,000,000 bytes, JSON that is not a flat table, duplicate names, unknown types, shapes that overflow or disagree
  /// with their bytes, offsets that overlap, leave gaps or miss the end; for shards also what ReadShards refuses.
  static SafeTensors Open(const std::filesystem::path& path);
  /// The same for bytes in memory, which must outlive the result. `where` is the prefix of errors.
  static SafeTensors FromBytes(std::span<const std::byte> bytes, std::string_view where);
  /// Maps a file and adds its tensors, unsorted, and its metadata to `set`.
  static void AddFile(const std::filesystem::path& path, TensorSet* set);
  /// Adds the tensors of `bytes`, which belong to `file` (null: to memory), unsorted, and the metadata.
  static void AddBytes(std::span<const std::byte> bytes, std::string_view where, const TensorFile* file,
                       TensorSet* set);
};

/// Reads the shards of an index (a JSON object "weight_map" from tensor to file). `add` adds the tensors of one file.
/// Throws Error for tensors that are indexed but missing, tensors that are not indexed, and shards outside the folder.
void ReadShards(const std::filesystem::path& index, TensorSet* set,
                const std::function<void(const std::filesystem::path& file, TensorSet* set)>& add);

/// Writes a file atomically; writes nothing if a tensor's source file changed since it was opened. Tensors are in
/// descending order of their type's alignment, then by name, as in the original library. With an `alignment` (a
/// multiple of 8), tensors whose size is a multiple of it start at multiples of it in the file; the others come last.
void WriteSafeTensors(const std::filesystem::path& path, std::vector<StoredTensor> tensors,
                      const std::map<std::string, std::string>& metadata = {}, size_t alignment = 0);

/// A dense view as a stored tensor of this name.
template <typename T>
StoredTensor Stored(std::string name, View<const T> view);

}  // namespace qkv::io
