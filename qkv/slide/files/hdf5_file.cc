// Superblock, object headers and the root group.
#include "qkv/slide/files/hdf5_file.h"

#include <algorithm>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/work.h"

namespace qkv::slide {
namespace {

// Far more than files of features have; an untrusted one ends here.
constexpr size_t kMostMessages = 4096, kMostBlocks = 256, kMostName = 1024;
constexpr size_t kMostEntries = 65'536;
constexpr int kMostLevels = 16;
constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
// Kinds of messages.
constexpr uint16_t kSpace = 1, kLinkInfo = 2, kType = 3, kLink = 6, kExternal = 7, kLayout = 8, kFilters = 11,
                   kAttribute = 12, kContinuation = 16, kSymbolTable = 17;
constexpr uint8_t kShared = 2;

// Text up to the first zero byte, which must be there.
std::string TerminatedText(Hdf5Bytes bytes, std::string_view where) {
  bytes = bytes.first(std::min(bytes.size(), kMostName));
  const auto end = std::find(bytes.begin(), bytes.end(), std::byte{0});
  Require(end != bytes.end(), "{}: the HDF5 file is damaged: a name has no end", where);
  return {reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(end - bytes.begin())};
}

}  // namespace

uint64_t Hdf5Cursor::Number(size_t bytes) {
  uint64_t number = 0;
  int shift = 0;
  for (const std::byte byte : Take(bytes)) {
    number |= std::to_integer<uint64_t>(byte) << shift;
    shift += 8;
  }
  return number;
}

Hdf5Bytes Hdf5Cursor::Take(uint64_t bytes) {
  Require(bytes <= rest_.size(), "{}: the HDF5 file is damaged: expected {} bytes more, got {}", where_, bytes,
          rest_.size());
  const Hdf5Bytes taken = rest_.first(bytes);
  rest_ = rest_.subspan(bytes);
  return taken;
}

bool Hdf5Cursor::Starts(std::string_view signature) {
  if (rest_.size() < signature.size() ||
      !std::equal(signature.begin(), signature.end(), reinterpret_cast<const char*>(rest_.data()))) {
    return false;
  }
  rest_ = rest_.subspan(signature.size());
  return true;
}

Hdf5File::Hdf5File(Hdf5Bytes bytes, std::string_view where) : bytes_(bytes), where_(where) {
  Hdf5Cursor block(bytes, where);
  Require(block.Starts(kSignature), "{}: expected an HDF5 file, got other bytes", where);
  const uint64_t version = block.Number(1);
  Require(version <= 3, "{}: expected an HDF5 superblock of version 0 to 3, got {}", where, version);
  if (version <= 1) block.Skip(4);
  const uint64_t address_bytes = block.Number(1), length_bytes = block.Number(1);
  Require(address_bytes == 8 && length_bytes == 8,
          "{}: expected an HDF5 file with addresses and lengths of 8 bytes, got {} and {}", where, address_bytes,
          length_bytes);
  // Numbers that the reader does not need, then addresses of the file's beginning, free space or extension, end, and
  // driver or root.
  block.Skip(version == 0 ? 9 : version == 1 ? 13 : 1);
  const uint64_t base = block.Number(8);
  Require(base == 0, "{}: expected HDF5 from the file's first byte, got a file within a file at {}", where, base);
  block.Skip(8);
  const uint64_t end = block.Number(8);
  Require(end <= bytes.size(),
          "{}: the HDF5 file is cut off: expected {} bytes, got {}; copy it again, or make it again", where, end,
          bytes.size());
  if (version <= 1) block.Skip(16);  // the driver, and the name of the root's entry
  ReadRoot(block.Number(8));
}

std::string Hdf5File::Names() const {
  std::string names;
  for (const auto& [name, address] : entries_) {
    if (names.size() > 200) return names + ", …";
    names += (names.empty() ? "" : ", ") + name;
  }
  return names.empty() ? "nothing" : names;
}

Hdf5Bytes Hdf5File::At(uint64_t address, uint64_t length, std::string_view what) const {
  Require(address <= bytes_.size() && length <= bytes_.size() - address,
          "{}: the HDF5 file is cut off or damaged: {} of {} bytes should be at {}, but the file has {}", where_, what,
          length, address, bytes_.size());
  return bytes_.subspan(address, length);
}

void Hdf5File::AddBlockMessages(Hdf5Bytes block, bool is_new, bool has_order, std::vector<Message>* messages,
                                std::vector<std::pair<uint64_t, uint64_t>>* blocks) const {
  const size_t head = is_new ? (has_order ? 6 : 4) : 8;
  Hdf5Cursor cursor(block, where_);
  while (cursor.rest().size() >= head) {
    Message message{};
    message.type = static_cast<uint16_t>(cursor.Number(is_new ? 1 : 2));
    const uint64_t size = cursor.Number(2);
    message.flags = static_cast<uint8_t>(cursor.Number(1));
    cursor.Skip(is_new ? (has_order ? 2 : 0) : 3);
    message.bytes = cursor.Take(size);
    if (message.type == kContinuation) {
      Hdf5Cursor place(message.bytes, where_);
      const uint64_t address = place.Number(8);
      blocks->emplace_back(address, place.Number(8));
    } else {
      messages->push_back(message);
    }
    Require(messages->size() <= kMostMessages && blocks->size() <= kMostBlocks,
            "{}: the HDF5 file is damaged: an object has more than {} messages", where_, kMostMessages);
  }
}

std::vector<Hdf5File::Message> Hdf5File::Messages(uint64_t address) const {
  std::vector<Message> messages;
  std::vector<std::pair<uint64_t, uint64_t>> blocks;
  Hdf5Cursor head(At(address, bytes_.size() - std::min<uint64_t>(address, bytes_.size()), "an object"), where_);
  const bool is_new = head.Starts("OHDR");
  const uint64_t version = head.Number(1);
  Require(version == (is_new ? 2 : 1), "{}: the HDF5 file is damaged: no object at {}", where_, address);
  bool has_order = false;
  if (is_new) {
    const uint64_t flags = head.Number(1);
    has_order = (flags & 4) != 0;
    head.Skip((flags & 0x20 ? 16 : 0) + (flags & 0x10 ? 4 : 0));  // times, phases of attributes
    const uint64_t size = head.Number(size_t{1} << (flags & 3));
    AddBlockMessages(head.Take(size), true, has_order, &messages, &blocks);
  } else {
    head.Skip(7);  // numbers of messages and of links
    const uint64_t size = head.Number(4);
    head.Skip(4);
    AddBlockMessages(head.Take(size), false, false, &messages, &blocks);
  }
  for (size_t i = 0; i < blocks.size(); ++i) {
    Hdf5Cursor block(At(blocks[i].first, blocks[i].second, "a part of an object"), where_);
    if (is_new) {
      Require(block.Starts("OCHK") && block.rest().size() >= 4,
              "{}: the HDF5 file is damaged: no part of an object at {}", where_, blocks[i].first);
    }
    AddBlockMessages(block.rest().first(block.rest().size() - (is_new ? 4 : 0)), is_new, has_order, &messages, &blocks);
  }
  Spend(static_cast<int64_t>(16 * messages.size()));
  return messages;
}

void Hdf5File::CountEntry() {
  Require(++entries_read_ <= kMostEntries, "{}: expected a file of features, got more than {} datasets", where_,
          kMostEntries);
}

void Hdf5File::ReadRoot(uint64_t header) {
  for (const Message& message : Messages(header)) {
    Hdf5Cursor cursor(message.bytes, where_);
    if (message.type == kSymbolTable) {
      const uint64_t tree = cursor.Number(8);
      ReadTable(tree, cursor.Number(8));
    } else if (message.type == kLink) {
      ReadLink(message.bytes);
    } else if (message.type == kLinkInfo) {
      cursor.Skip(1);
      const uint64_t flags = cursor.Number(1);
      cursor.Skip(flags & 1 ? 8 : 0);
      Require(
          cursor.Number(8) == kNowhere,
          "{}: expected a file of features, got one with more datasets than fit into its root; write `features` and "
          "`coords` alone",
          where_);
    }
  }
}

// A tree over nodes of names, whose texts are in a heap.
void Hdf5File::ReadTable(uint64_t tree, uint64_t heap) {
  Hdf5Cursor head(At(heap, 32, "a heap of names"), where_);
  Require(head.Starts("HEAP"), "{}: the HDF5 file is damaged: no heap of names at {}", where_, heap);
  head.Skip(4);
  const uint64_t size = head.Number(8);
  head.Skip(8);
  const Hdf5Bytes names = At(head.Number(8), size, "a heap of names");
  std::vector<std::pair<uint64_t, int>> nodes = {{tree, kMostLevels}};  // its address; a bound of its level
  for (size_t i = 0; i < nodes.size(); ++i) {
    const auto [address, bound] = nodes[i];
    Hdf5Cursor node(At(address, 24, "a node"), where_);
    Require(node.Starts("TREE") && node.Number(1) == 0, "{}: the HDF5 file is damaged: no node at {}", where_, address);
    const int level = static_cast<int>(node.Number(1));
    const uint64_t used = node.Number(2);
    Require(level < bound, "{}: the HDF5 file is damaged: a tree without an end", where_);
    Hdf5Cursor children(At(address + 24, 16 * used + 8, "a node"), where_);
    for (uint64_t child = 0; child < used; ++child) {
      CountEntry();
      children.Skip(8);
      const uint64_t place = children.Number(8);
      if (level == 0) {
        ReadNames(place, names);
      } else {
        nodes.emplace_back(place, level);
      }
    }
  }
}

void Hdf5File::ReadNames(uint64_t node, Hdf5Bytes heap) {
  Hdf5Cursor head(At(node, 8, "names"), where_);
  Require(head.Starts("SNOD"), "{}: the HDF5 file is damaged: no names at {}", where_, node);
  head.Skip(2);
  const uint64_t count = head.Number(2);
  Spend(static_cast<int64_t>(40 * count));
  Hdf5Cursor entries(At(node + 8, 40 * count, "names"), where_);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t name = entries.Number(8), address = entries.Number(8), kind = entries.Number(4);
    entries.Skip(20);
    Require(name < heap.size(), "{}: the HDF5 file is damaged: a name outside of its heap", where_);
    constexpr uint64_t kSoftLink = 2;
    CountEntry();
    entries_[TerminatedText(heap.subspan(name), where_)] = kind == kSoftLink ? kElsewhere : address;
  }
}

void Hdf5File::ReadLink(Hdf5Bytes link) {
  Hdf5Cursor cursor(link, where_);
  const uint64_t version = cursor.Number(1), flags = cursor.Number(1);
  Require(version == 1, "{}: expected an HDF5 link of version 1, got {}", where_, version);
  const uint64_t kind = flags & 8 ? cursor.Number(1) : 0;
  cursor.Skip((flags & 4 ? 8 : 0) + (flags & 16 ? 1 : 0));
  const uint64_t length = cursor.Number(size_t{1} << (flags & 3));
  const Hdf5Bytes name = cursor.Take(length);
  Require(length <= kMostName, "{}: the HDF5 file is damaged: a name of {} bytes", where_, length);
  CountEntry();
  entries_[std::string(reinterpret_cast<const char*>(name.data()), name.size())] =
      kind == 0 ? cursor.Number(8) : kElsewhere;
}

Hdf5Dataset Hdf5File::Open(const std::string& name) const {
  const auto found = entries_.find(name);
  Require(found != entries_.end(), "{}: expected a dataset {}, got {}", where_, name, Names());
  Require(found->second != kElsewhere,
          "{}: {} is a link to another place or file, which is not followed; copy it into the file", where_, name);
  Hdf5Dataset dataset{.name = name};
  bool has_space = false, has_type = false, has_layout = false;
  const std::vector<Message> messages = Messages(found->second);
  for (const Message& message : messages) {
    const bool is_used = message.type == kSpace || message.type == kType || message.type == kFilters;
    Require(!is_used || (message.flags & kShared) == 0, "{}: {} shares its type with others, which is not read", where_,
            name);
    Require(message.type != kExternal, "{}: {} lies in another file, which is not read; copy it into this one", where_,
            name);
    if (message.type == kSpace) {
      const auto shape = ParseSpace(message.bytes, where_);
      Require(shape.has_value(), "{}: {} is empty by declaration", where_, name);
      dataset.shape = *shape;
      has_space = true;
    } else if (message.type == kType) {
      dataset.type = ParseType(message.bytes, where_);
      has_type = true;
    } else if (message.type == kLayout) {
      ReadLayout(message.bytes, &dataset);
      has_layout = true;
    } else if (message.type == kFilters) {
      ReadFilters(message.bytes, &dataset);
    } else if (message.type == kAttribute && (message.flags & kShared) == 0) {
      ReadAttribute(message.bytes, &dataset.attributes);
    }
  }
  Require(has_space && has_type && has_layout, "{}: expected {} to be a dataset, got something else", where_, name);
  return dataset;
}

}  // namespace qkv::slide
