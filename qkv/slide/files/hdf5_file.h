// HDF5 files of others, read from memory with every offset and length checked: the datasets of the root group, as
// libhdf5 writes them by default since 1.6 (superblocks 0 to 3; Format Specification 3.0). Not here, and refused by
// name: links to elsewhere, virtual datasets and external storage, other filters than gzip and shuffle, the chunk
// indices of libver='latest'. Attributes of other types than numbers and text, and those in a heap of their own (more
// than eight in files of libver='v108' and later), are left out. Internal to qkv/slide/files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/slide/files/feature_file.h"

namespace qkv::slide {

using Hdf5Bytes = std::span<const std::byte>;

/// The type of an element.
struct Hdf5Type {
  enum class Kind { kInteger, kFloat, kText, kLongText, kOther };  // kLongText: of variable length, in a heap
  Kind kind = Kind::kOther;
  bool is_signed = false;
  size_t size = 0;   // bytes
  std::string name;  // for messages: "float32"
};

/// Where the elements lie.
struct Hdf5Layout {
  enum class Kind { kContiguous, kChunked };
  Kind kind = Kind::kContiguous;
  Hdf5Bytes bytes;              // contiguous: all elements
  uint64_t tree = 0;            // chunked: address of the chunks' tree, or kNowhere
  std::vector<uint64_t> chunk;  // extents of a chunk in elements
  bool shuffled = false, gzipped = false;
};

struct Hdf5Dataset {
  std::string name;
  std::vector<uint64_t> shape;  // at most kMostAxes
  Hdf5Type type;
  Hdf5Layout layout;
  Attributes attributes;
};

class Hdf5File {
 public:
  /// Finds the root group's entries. `bytes` and `where`, which begins messages, must outlive this. Throws Error for
  /// what is no HDF5 file, is cut off or damaged.
  Hdf5File(Hdf5Bytes bytes, std::string_view where);

  bool Has(const std::string& name) const { return entries_.contains(name); }
  /// "coords, features"
  std::string Names() const;

  /// Reads what describes a dataset. Throws Error if there is none of this name, or it is damaged or of a kind that is
  /// not read.
  Hdf5Dataset Open(const std::string& name) const;

  /// Writes all elements, row-major, as they are stored, into `to`, which has the size of the dataset. Throws Error for
  /// chunks that are missing, damaged or twice there.
  void Read(const Hdf5Dataset& dataset, std::span<std::byte> to) const;

  /// The bytes of a dataset. Throws Error if it claims more than the file can hold, or above MemoryLimit().
  size_t Size(const Hdf5Dataset& dataset) const;

 private:
  struct Message {
    uint16_t type;
    uint8_t flags;
    Hdf5Bytes bytes;
  };
  static constexpr uint64_t kElsewhere = ~uint64_t{0};  // an entry that is a soft or an external link

  Hdf5Bytes At(uint64_t address, uint64_t length, std::string_view what) const;
  std::vector<Message> Messages(uint64_t address) const;
  void AddBlockMessages(Hdf5Bytes block, bool is_new, bool has_order, std::vector<Message>* messages,
                        std::vector<std::pair<uint64_t, uint64_t>>* blocks) const;
  void ReadRoot(uint64_t header);
  void ReadTable(uint64_t tree, uint64_t heap);
  void ReadNames(uint64_t node, Hdf5Bytes heap);
  void ReadLink(Hdf5Bytes link);
  void CountEntry();
  void ReadLayout(Hdf5Bytes message, Hdf5Dataset* dataset) const;
  void ReadFilters(Hdf5Bytes message, Hdf5Dataset* dataset) const;
  void ReadAttribute(Hdf5Bytes message, Attributes* attributes) const;
  std::optional<std::string> LongText(Hdf5Bytes reference) const;

  struct Chunk {
    Hdf5Bytes bytes;
    uint32_t skipped = 0;          // filters that were not applied, a bit each
    std::vector<uint64_t> offset;  // of its first element
  };
  void ReadNode(const Hdf5Dataset& dataset, uint64_t address, int level, uint64_t* keys_left,
                std::vector<Chunk>* chunks) const;
  void CopyChunk(const Hdf5Dataset& dataset, const Chunk& chunk, std::span<std::byte> to) const;

  const Hdf5Bytes bytes_;
  const std::string_view where_;
  std::map<std::string, uint64_t> entries_;  // name: address of its header
  size_t entries_read_ = 0;                  // of nodes, and names
};

inline constexpr uint64_t kNowhere = ~uint64_t{0};  // the undefined address
inline constexpr size_t kMostAxes = 4;

/// Reads numbers and parts one after another. Throws Error beyond the end.
class Hdf5Cursor {
 public:
  Hdf5Cursor(Hdf5Bytes bytes, std::string_view where) : rest_(bytes), where_(where) {}

  /// An unsigned number of 1 to 8 bytes.
  uint64_t Number(size_t bytes);
  Hdf5Bytes Take(uint64_t bytes);
  void Skip(uint64_t bytes) { Take(bytes); }
  bool Starts(std::string_view signature);  // and skips it
  Hdf5Bytes rest() const { return rest_; }

 private:
  Hdf5Bytes rest_;
  std::string_view where_;
};

/// The extents of a dataspace message; nothing for a null dataspace. Throws Error for more than kMostAxes.
std::optional<std::vector<uint64_t>> ParseSpace(Hdf5Bytes message, std::string_view where);
Hdf5Type ParseType(Hdf5Bytes message, std::string_view where);
/// The value of one element; nothing if its type is not among an attribute's.
std::optional<Attribute> ParseValue(const Hdf5Type& type, Hdf5Bytes element);

}  // namespace qkv::slide
