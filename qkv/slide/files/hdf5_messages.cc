// Messages of a dataset: extents, types, layouts, filters, attributes.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "qkv/core/dtype.h"
#include "qkv/core/error.h"
#include "qkv/core/work.h"
#include "qkv/slide/files/hdf5_file.h"

namespace qkv::slide {
namespace {

// Texts of attributes may share their bytes: 64 MiB at most.
constexpr size_t kMostText = size_t{1} << 16, kMostAttributes = 1024;

size_t RoundedUp8(size_t bytes) { return (bytes + 7) / 8 * 8; }

std::string FilterName(uint64_t id) {
  switch (id) {
    case 3:
      return "fletcher32";
    case 4:
      return "szip";
    case 32000:
      return "lzf";
    case 32001:
      return "blosc";
    case 32004:
      return "lz4";
    case 32015:
      return "zstd";
    default:
      return fmt::format("number {}", id);
  }
}

// Text of fixed length ends at its first zero byte, or is padded by spaces.
std::string FixedText(Hdf5Bytes bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string_view ended = text.substr(0, text.find('\0'));
  return std::string(ended.substr(0, ended.find_last_not_of(' ') + 1));
}

double FloatValue(Hdf5Bytes element) {
  uint64_t bits = 0;
  for (size_t i = 0; i < element.size(); ++i) bits |= std::to_integer<uint64_t>(element[i]) << (8 * i);
  if (element.size() == 2) return ToFloat(Half{static_cast<uint16_t>(bits)});
  return element.size() == 4 ? std::bit_cast<float>(static_cast<uint32_t>(bits)) : std::bit_cast<double>(bits);
}

}  // namespace

std::optional<std::vector<uint64_t>> ParseSpace(Hdf5Bytes message, std::string_view where) {
  Hdf5Cursor cursor(message, where);
  const uint64_t version = cursor.Number(1), axes = cursor.Number(1);
  Require(version == 1 || version == 2, "{}: expected an HDF5 dataspace of version 1 or 2, got {}", where, version);
  Require(axes <= kMostAxes, "{}: expected at most {} axes, got {}", where, kMostAxes, axes);
  cursor.Skip(1);
  const uint64_t kind = cursor.Number(1);
  if (version == 1) cursor.Skip(4);
  constexpr uint64_t kNull = 2;
  if (version == 2 && kind == kNull) return std::nullopt;
  std::vector<uint64_t> shape;
  for (uint64_t axis = 0; axis < axes; ++axis) shape.push_back(cursor.Number(8));
  return shape;
}

Hdf5Type ParseType(Hdf5Bytes message, std::string_view where) {
  Hdf5Cursor cursor(message, where);
  const uint64_t kind = cursor.Number(1) & 15, bits = cursor.Number(3), size = cursor.Number(4);
  constexpr uint64_t kInteger = 0, kFloat = 1, kString = 3, kEnumeration = 8, kVariable = 9;
  Hdf5Type type{.size = static_cast<size_t>(size), .name = fmt::format("a type of class {}", kind)};
  const bool is_number = kind == kInteger || kind == kFloat;
  if (is_number && (bits & 1) != 0) {
    type.name = "big-endian numbers";
  } else if (kind == kInteger) {
    const uint64_t offset = cursor.Number(2), precision = cursor.Number(2);
    type.is_signed = (bits & 8) != 0;
    type.name = fmt::format("{}int{}", type.is_signed ? "" : "u", precision);
    if (offset == 0 && precision == 8 * size && (size == 1 || size == 2 || size == 4 || size == 8)) {
      type.kind = Hdf5Type::Kind::kInteger;
    }
  } else if (kind == kFloat) {
    cursor.Skip(5);  // offset, precision, where the exponent is
    const uint64_t exponent = cursor.Number(1);
    type.name = fmt::format("float{}, {} of it the exponent", 8 * size, exponent);
    if ((size == 2 && exponent == 5) || (size == 4 && exponent == 8) || (size == 8 && exponent == 11)) {
      type.kind = Hdf5Type::Kind::kFloat;
      type.name = fmt::format("float{}", 8 * size);
    }
  } else if (kind == kString && size > 0 && size <= kMostText) {
    type.kind = Hdf5Type::Kind::kText;
    type.name = "text";
  } else if (kind == kVariable && (bits & 15) == 1 && size == 16) {
    type.kind = Hdf5Type::Kind::kLongText;
    type.name = "text";
  } else if (kind == kEnumeration) {
    // h5py's bool is an enumeration of bytes; the type of its numbers follows, which is no enumeration itself.
    const Hdf5Bytes base = cursor.rest();
    const bool is_plain = !base.empty() && (std::to_integer<uint64_t>(base[0]) & 15) == kInteger;
    if (is_plain) type = ParseType(base, where);
    if (type.size != size) type.kind = Hdf5Type::Kind::kOther;
  }
  return type;
}

std::optional<Attribute> ParseValue(const Hdf5Type& type, Hdf5Bytes element) {
  if (element.size() != type.size) return std::nullopt;
  if (type.kind == Hdf5Type::Kind::kText) return FixedText(element);
  if (type.kind == Hdf5Type::Kind::kFloat) return FloatValue(element);
  if (type.kind != Hdf5Type::Kind::kInteger) return std::nullopt;
  uint64_t bits = 0;
  for (size_t i = 0; i < element.size(); ++i) bits |= std::to_integer<uint64_t>(element[i]) << (8 * i);
  const int unused = static_cast<int>(64 - 8 * element.size());
  const auto value = static_cast<int64_t>(bits << unused);
  if (type.is_signed) return value >> unused;
  if (bits > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
  return static_cast<int64_t>(bits);
}

void Hdf5File::ReadLayout(Hdf5Bytes message, Hdf5Dataset* dataset) const {
  Hdf5Cursor cursor(message, where_);
  const uint64_t version = cursor.Number(1);
  Require(version >= 3 && version <= 5, "{}: expected an HDF5 layout of version 3 to 5, got {}", where_, version);
  const uint64_t kind = cursor.Number(1);
  constexpr uint64_t kCompact = 0, kContiguous = 1, kChunked = 2;
  Hdf5Layout& layout = dataset->layout;
  if (kind == kCompact) {
    layout.bytes = cursor.Take(cursor.Number(2));
  } else if (kind == kContiguous) {
    const uint64_t address = cursor.Number(8), size = cursor.Number(8);
    if (address != kNowhere) layout.bytes = At(address, size, dataset->name);  // else nothing was written
  } else {
    Require(kind == kChunked, "{}: {} is a virtual dataset, which takes its elements from other files; copy it", where_,
            dataset->name);
    Require(version == 3,
            "{}: {} has an index of chunks of HDF5 1.10 (libver='latest'), which is not read; h5repack --low=0 "
            "--high=1 makes a "
            "file that is",
            where_, dataset->name);
    layout.kind = Hdf5Layout::Kind::kChunked;
    const uint64_t axes = cursor.Number(1);
    Require(axes >= 2 && axes <= kMostAxes + 1, "{}: the HDF5 file is damaged: chunks of {} axes", where_, axes);
    layout.tree = cursor.Number(8);
    for (uint64_t axis = 0; axis + 1 < axes; ++axis) layout.chunk.push_back(cursor.Number(4));
  }
}

void Hdf5File::ReadFilters(Hdf5Bytes message, Hdf5Dataset* dataset) const {
  Hdf5Cursor cursor(message, where_);
  const uint64_t version = cursor.Number(1), count = cursor.Number(1);
  Require(version == 1 || version == 2, "{}: expected HDF5 filters of version 1 or 2, got {}", where_, version);
  if (version == 1) cursor.Skip(6);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t id = cursor.Number(2), name = version == 1 || id >= 256 ? cursor.Number(2) : 0;
    cursor.Skip(2);
    const uint64_t values = cursor.Number(2);
    cursor.Skip(version == 1 ? RoundedUp8(name) + 4 * (values + values % 2) : name + 4 * values);
    constexpr uint64_t kGzip = 1, kShuffle = 2;
    Hdf5Layout& layout = dataset->layout;
    const bool is_known = (id == kShuffle && i == 0) || (id == kGzip && !layout.gzipped);
    Require(is_known, "{}: {} is packed by {}, which is not read; h5repack -f GZIP=4 makes a file that is", where_,
            dataset->name, id <= kShuffle ? "filters in another order than shuffle, gzip" : FilterName(id));
    (id == kShuffle ? layout.shuffled : layout.gzipped) = true;
  }
}

void Hdf5File::ReadAttribute(Hdf5Bytes message, Attributes* attributes) const {
  Hdf5Cursor cursor(message, where_);
  const uint64_t version = cursor.Number(1), flags = cursor.Number(1);
  Require(version >= 1 && version <= 3, "{}: expected an HDF5 attribute of version 1 to 3, got {}", where_, version);
  const uint64_t name_bytes = cursor.Number(2), type_bytes = cursor.Number(2), space_bytes = cursor.Number(2);
  if (version == 3) cursor.Skip(1);
  const auto take = [&](uint64_t bytes) { return cursor.Take(version == 1 ? RoundedUp8(bytes) : bytes).first(bytes); };
  const std::string name = FixedText(take(name_bytes));
  const Hdf5Bytes type_message = take(type_bytes), space_message = take(space_bytes);
  if (version >= 2 && (flags & 3) != 0) return;  // its type is elsewhere
  const Hdf5Type type = ParseType(type_message, where_);
  const auto shape = ParseSpace(space_message, where_);
  if (!shape || std::any_of(shape->begin(), shape->end(), [](uint64_t extent) { return extent != 1; })) return;
  std::optional<Attribute> value;
  if (type.kind == Hdf5Type::Kind::kLongText) {
    const std::optional<std::string> text = LongText(cursor.Take(type.size));
    if (text) value = *text;
  } else if (type.kind != Hdf5Type::Kind::kOther) {
    value = ParseValue(type, cursor.Take(type.size));
  }
  if (value) attributes->insert_or_assign(name, *value);
  Require(attributes->size() <= kMostAttributes, "{}: expected at most {} attributes, got more", where_,
          kMostAttributes);
}

// Looks a text up in the global heap.
std::optional<std::string> Hdf5File::LongText(Hdf5Bytes reference) const {
  Hdf5Cursor cursor(reference, where_);
  const uint64_t length = cursor.Number(4), address = cursor.Number(8), wanted = cursor.Number(4);
  if (length == 0) return "";
  Hdf5Cursor head(At(address, 16, "a heap of texts"), where_);
  Require(head.Starts("GCOL"), "{}: the HDF5 file is damaged: no heap of texts at {}", where_, address);
  head.Skip(4);
  const uint64_t size = head.Number(8);
  Require(size >= 16, "{}: the HDF5 file is damaged: a heap of {} bytes", where_, size);
  Hdf5Cursor heap(At(address, size, "a heap of texts").subspan(16), where_);
  constexpr int kMostTexts = 65'535;  // their numbers have two bytes
  for (int i = 0; i < kMostTexts && heap.rest().size() >= 16; ++i) {
    Spend(16);
    const uint64_t index = heap.Number(2);
    heap.Skip(6);
    const uint64_t bytes = heap.Number(8);
    if (index == 0) break;  // the free space at the end
    if (index == wanted) {
      Require(length <= bytes && length <= kMostText, "{}: the HDF5 file is damaged: a text of {} bytes", where_,
              length);
      return FixedText(heap.Take(length));
    }
    Require(bytes <= heap.rest().size(), "{}: the HDF5 file is damaged: a text of {} bytes", where_, bytes);
    heap.Skip(std::min(RoundedUp8(bytes), heap.rest().size()));
  }
  Fail("{}: the HDF5 file is damaged: no text {} in its heap at {}", where_, wanted, address);
}

}  // namespace qkv::slide
