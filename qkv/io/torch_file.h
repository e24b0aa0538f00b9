// Files by torch.save: zip archives (PyTorch 1.6 and later) and the older format. Tensors are used where they are
// mapped, if they are contiguous; no code of a file is executed. Not here: which family of models
// the tensors belong to (model).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/io/tensor_set.h"
#include "qkv/io/torch_pickle.h"
#include "qkv/io/zip.h"

namespace qkv::io {

/// Whether the bytes begin like a file by torch.save, old or new, or like any zip archive or pickle.
bool IsTorchFile(std::span<const std::byte> bytes);

class TorchFile {
 public:
  /// Lists what is in a file. `bytes` must outlive the result. Throws Error, prefixed with `where`, for damaged files,
  /// TorchScript and exported programs, pickles that torch.save did not write, files without tensors, and as
  /// ReadTorchContents.
  static TorchFile FromBytes(std::span<const std::byte> bytes, std::string_view where);

  /// At least one.
  const std::vector<TorchDictionary>& dictionaries() const { return dictionaries_; }
  /// The dictionary at this path or, if it is empty, the one that timm would load: an average of the weights (EMA)
  /// before the weights themselves, these before anything else, then the one with most bytes. Throws Error that lists
  /// the paths if there is none of this name.
  const TorchDictionary& Choose(std::string_view path) const;
  /// See TorchContents::training.
  const std::string& training() const { return training_; }
  /// A sentence on the chosen dictionary and the others; empty if there was no choice.
  std::string DescribeChoice(const TorchDictionary& chosen) const;
  /// Adds the tensors of a dictionary to `set`, unsorted. `file`: what the bytes are mapped from, or null. Tensors that
  /// are not contiguous are copied. Bytes that are copied or unpacked are compared with their checksum, those that stay
  /// where they are when they are used (StoredTensor::RequireIntact). Throws Error that names the tensor for types and
  /// layouts that qkv does not read, and for tensors outside of their storage; also if all tensors together are many
  /// times larger than the file.
  void AddTensors(const TorchDictionary& dictionary, const TensorFile* file, TensorSet* set) const;

 private:
  struct Storage {
    std::span<const std::byte> bytes;
    const ZipEntry* entry = nullptr;  // null in the old format
    uint64_t size = 0;                // bytes, unpacked

    bool deflated() const { return entry != nullptr && entry->deflated; }
  };
  void ReadZip(std::span<const std::byte> bytes);
  void ReadOld(std::span<const std::byte> bytes);
  void SetContents(TorchContents contents);
  void RequireExpansion(uint64_t bytes) const;
  std::string NameEntry(const ZipEntry& entry) const;
  void RequireView(const TorchTensor& tensor, const Storage& storage) const;

  std::string where_;
  size_t file_bytes_ = 0;
  bool big_endian_ = false;
  std::vector<ZipEntry> entries_;
  std::vector<TorchStorage> expected_;
  std::vector<Storage> storages_;  // as expected_
  std::vector<TorchDictionary> dictionaries_;
  std::string training_;
};

}  // namespace qkv::io
