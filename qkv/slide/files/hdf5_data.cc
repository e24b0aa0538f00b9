// The elements of a dataset, which may lie in chunks, packed.
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "qkv/core/error.h"
#include "qkv/core/memory.h"
#include "qkv/core/work.h"
#include "qkv/slide/files/hdf5_file.h"

namespace qkv::slide {
namespace {

constexpr uint64_t kMostPacked = 1032;  // DEFLATE expands no more
constexpr uint64_t kMostBytes = uint64_t{1} << 48;
constexpr int kMostChunkLevels = 32;

// The product, or kMostBytes + 1 if it is larger.
uint64_t Product(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? kMostBytes + 1 : std::min(product, kMostBytes + 1);
}

uint64_t ElementsOf(std::span<const uint64_t> extents, uint64_t each) {
  uint64_t product = each;
  for (const uint64_t extent : extents) product = Product(product, extent);
  return product;
}

void Inflate(Hdf5Bytes packed, std::span<std::byte> to, std::string_view where) {
  uLongf size = to.size();
  const int result = ::uncompress(reinterpret_cast<Bytef*>(to.data()), &size,
                                  reinterpret_cast<const Bytef*>(packed.data()), packed.size());
  Require(result == Z_OK && size == to.size(), "{}: the HDF5 file is damaged: a chunk cannot be unpacked", where);
}

// The shuffle filter has first all first bytes of elements, then all second ones, and so on.
void Unshuffle(std::span<const std::byte> from, size_t element, std::span<std::byte> to) {
  const size_t count = from.size() / element;
  for (size_t byte = 0; byte < element; ++byte) {
    for (size_t i = 0; i < count; ++i) to[i * element + byte] = from[byte * count + i];
  }
}

}  // namespace

size_t Hdf5File::Size(const Hdf5Dataset& dataset) const {
  const uint64_t bytes = ElementsOf(dataset.shape, dataset.type.size);
  // A part of what contiguous and unpacked chunks hold is in the file, more than a DEFLATE stream can expand is not.
  const uint64_t most = Product(bytes_.size(), dataset.layout.gzipped ? kMostPacked : 1);
  Require(bytes <= std::min(most, kMostBytes), "{}: the HDF5 file is cut off or damaged: {} has {} bytes, the file {}",
          where_, dataset.name, bytes, bytes_.size());
  RequireMemory(static_cast<double>(bytes), where_);
  return bytes;
}

void Hdf5File::Read(const Hdf5Dataset& dataset, std::span<std::byte> to) const {
  Require(to.size() == Size(dataset), "{}: expected room for {} bytes of {}, got {}", where_, Size(dataset),
          dataset.name, to.size());
  if (to.empty()) return;
  const Hdf5Layout& layout = dataset.layout;
  if (layout.kind == Hdf5Layout::Kind::kContiguous) {
    Require(layout.bytes.size() >= to.size(), "{}: {} was not written completely: expected {} bytes, got {}", where_,
            dataset.name, to.size(), layout.bytes.size());
    std::copy_n(layout.bytes.begin(), to.size(), to.begin());
    return;
  }
  Require(layout.chunk.size() == dataset.shape.size(), "{}: the HDF5 file is damaged: {} has {} axes, its chunks {}",
          where_, dataset.name, dataset.shape.size(), layout.chunk.size());
  uint64_t count = 1;
  for (size_t axis = 0; axis < dataset.shape.size(); ++axis) {
    Require(layout.chunk[axis] > 0, "{}: the HDF5 file is damaged: chunks without elements", where_);
    count = Product(count, (dataset.shape[axis] - 1) / layout.chunk[axis] + 1);
  }
  // Each chunk has bytes of its own, and a key of its own in the tree.
  const uint64_t stored = Product(count, ElementsOf(layout.chunk, dataset.type.size));
  uint64_t keys_left = bytes_.size() / 24;
  Require(count <= keys_left && stored <= Product(bytes_.size(), layout.gzipped ? kMostPacked : 1),
          "{}: the HDF5 file is cut off or damaged: {} has {} chunks, the file {} bytes", where_, dataset.name, count,
          bytes_.size());
  std::vector<Chunk> chunks;
  if (layout.tree != kNowhere) ReadNode(dataset, layout.tree, kMostChunkLevels, &keys_left, &chunks);
  std::sort(chunks.begin(), chunks.end(), [](const Chunk& a, const Chunk& b) { return a.offset < b.offset; });
  const bool is_repeated = std::adjacent_find(chunks.begin(), chunks.end(), [](const Chunk& a, const Chunk& b) {
                             return a.offset == b.offset;
                           }) != chunks.end();
  Require(chunks.size() == count && !is_repeated,
          "{}: {} was not written completely: expected {} chunks, got {}{}; make it again", where_, dataset.name, count,
          chunks.size(), is_repeated ? ", some of them twice" : "");
  for (const Chunk& chunk : chunks) CopyChunk(dataset, chunk, to);
}

// A node of the chunks' tree, whose level is below `level`. Nodes that are visited again use up the keys that a file of
// this size can have.
void Hdf5File::ReadNode(const Hdf5Dataset& dataset, uint64_t address, int level, uint64_t* keys_left,
                        std::vector<Chunk>* chunks) const {
  Hdf5Cursor head(At(address, 24, "a node"), where_);
  Require(head.Starts("TREE") && head.Number(1) == 1, "{}: the HDF5 file is damaged: no node at {}", where_, address);
  const int own_level = static_cast<int>(head.Number(1));
  const uint64_t used = head.Number(2);
  Require(own_level < level && used <= *keys_left, "{}: the HDF5 file is damaged: a tree of chunks without an end",
          where_);
  *keys_left -= used;
  const size_t axes = dataset.shape.size(), key = 8 + 8 * (axes + 1);
  Spend(static_cast<int64_t>(8 * used));
  Hdf5Cursor keys(At(address + 24, used * (key + 8) + key, "a node"), where_);
  for (uint64_t i = 0; i < used; ++i) {
    Chunk chunk;
    const uint64_t size = keys.Number(4);
    chunk.skipped = static_cast<uint32_t>(keys.Number(4));
    for (size_t axis = 0; axis < axes; ++axis) chunk.offset.push_back(keys.Number(8));
    keys.Skip(8);
    const uint64_t child = keys.Number(8);
    if (own_level > 0) {
      ReadNode(dataset, child, own_level, keys_left, chunks);
      continue;
    }
    for (size_t axis = 0; axis < axes; ++axis) {
      Require(chunk.offset[axis] % dataset.layout.chunk[axis] == 0,
              "{}: the HDF5 file is damaged: a chunk between chunks", where_);
      if (chunk.offset[axis] >= dataset.shape[axis]) chunk.offset.clear();  // was cut off when the dataset shrank
      if (chunk.offset.empty()) break;
    }
    if (chunk.offset.empty()) continue;
    chunk.bytes = At(child, size, dataset.name);
    chunks->push_back(std::move(chunk));
  }
}

void Hdf5File::CopyChunk(const Hdf5Dataset& dataset, const Chunk& chunk, std::span<std::byte> to) const {
  const Hdf5Layout& layout = dataset.layout;
  const size_t element = dataset.type.size, axes = dataset.shape.size();
  const uint64_t size = ElementsOf(layout.chunk, element);
  Spend(static_cast<int64_t>(size / 16 + 16));
  // Filters in the order in which they were applied: shuffle, gzip.
  const bool shuffled = layout.shuffled && (chunk.skipped & 1) == 0,
             gzipped = layout.gzipped && (chunk.skipped >> (layout.shuffled ? 1 : 0) & 1) == 0;
  Require(size <= Product(chunk.bytes.size(), gzipped ? kMostPacked : 1) && (gzipped || chunk.bytes.size() == size),
          "{}: the HDF5 file is damaged: a chunk of {} has {} bytes in place of {}", where_, dataset.name,
          chunk.bytes.size(), size);
  Hdf5Bytes bytes = chunk.bytes;
  std::vector<std::byte> unpacked, unshuffled;
  if (gzipped) {
    RequireMemory(static_cast<double>(size), where_);
    unpacked.resize(size);
    Inflate(bytes, unpacked, where_);
    bytes = unpacked;
  }
  if (shuffled) {
    RequireMemory(static_cast<double>(size), where_);
    unshuffled.resize(size);
    Unshuffle(bytes, element, unshuffled);
    bytes = unshuffled;
  }
  // Runs along the last axis; those of the chunk that lie outside of the dataset are left out.
  std::vector<uint64_t> extent(axes), at(axes, 0);
  for (size_t axis = 0; axis < axes; ++axis) {
    extent[axis] = std::min(layout.chunk[axis], dataset.shape[axis] - chunk.offset[axis]);
  }
  while (true) {
    uint64_t from = 0, into = 0;
    for (size_t axis = 0; axis < axes; ++axis) {
      from = from * layout.chunk[axis] + at[axis];
      into = into * dataset.shape[axis] + chunk.offset[axis] + at[axis];
    }
    std::memcpy(to.data() + into * element, bytes.data() + from * element, extent[axes - 1] * element);
    size_t axis = axes - 1;  // the next run
    while (axis > 0 && ++at[axis - 1] == extent[axis - 1]) at[--axis] = 0;
    if (axis == 0) return;
  }
}

}  // namespace qkv::slide
