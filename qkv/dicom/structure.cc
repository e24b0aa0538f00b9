#include "qkv/dicom/structure.h"

#include <dcmtk/config/osconfig.h>
#include <dcmtk/dcmdata/dctag.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "qkv/core/error.h"

namespace qkv::dicom {
namespace {

constexpr size_t kPreamble = 128, kMagic = 4;
constexpr int kMaxDepth = 48;  // structured reports nest by ten or so
constexpr uint32_t kUndefined = 0xFFFFFFFF;
// An element in DCMTK's memory beside its value.
constexpr uint64_t kElementBytes = 256;
constexpr uint32_t kItem = 0xFFFEE000, kItemEnd = 0xFFFEE00D, kSequenceEnd = 0xFFFEE0DD;
constexpr uint32_t kFloatPixels = 0x7FE00008, kDoublePixels = 0x7FE00009, kPixelData = 0x7FE00010;

enum class Kind { kValue, kSequence, kFragments };

struct Header {
  uint32_t tag = 0, length = 0;
  Kind kind = Kind::kValue;
  bool unknown = false;  // VR UN: what is inside of a sequence is implicit and little-endian
  bool words = false;
  bool maybe_sequence = false;  // DCMTK may know it as one by its private dictionary
};

// Not a fault that may be overlooked.
class TooDeep : public Error {
 public:
  using Error::Error;
};

// A position in bytes that are read once.
class Cursor {
 public:
  Cursor(Bytes bytes, Encoding encoding) : bytes_(bytes), encoding_(encoding) {}
  size_t at() const { return at_; }
  size_t left() const { return bytes_.size() - at_; }
  Encoding encoding() const { return encoding_; }
  void set_encoding(Encoding encoding) { encoding_ = encoding; }
  Bytes rest() const { return bytes_.subspan(at_); }
  Bytes Take(uint64_t size) {
    Require(size <= left(), "the file ends within an element: {} bytes expected, {} left", size, left());
    const Bytes taken = bytes_.subspan(at_, static_cast<size_t>(size));
    at_ += taken.size();
    return taken;
  }
  uint32_t Number(size_t size) {
    const Bytes b = Take(size);
    uint32_t number = 0;
    for (size_t i = 0; i < size; ++i) number |= uint32_t{b[encoding_.big ? size - 1 - i : i]} << (8 * i);
    return number;
  }

 private:
  Bytes bytes_;
  Encoding encoding_;
  size_t at_ = 0;
};

bool IsCapital(uint8_t c) { return c >= 'A' && c <= 'Z'; }

// As DCMTK reads it (DcmVR::setVR): a name of two capital letters that is unknown has a long length, others a short
// one.
Header ReadHeader(Cursor& in) {
  Header header;
  header.tag = in.Number(2) << 16;
  header.tag |= in.Number(2);
  if (header.tag >> 16 == 0xFFFE) {
    header.length = in.Number(4);
    return header;
  }
  const DcmEVR known = DcmTag(static_cast<Uint16>(header.tag >> 16), static_cast<Uint16>(header.tag)).getEVR();
  DcmVR vr(known);
  if (in.encoding().is_explicit) {
    const Bytes name = in.Take(2);
    const char text[3] = {static_cast<char>(name[0]), static_cast<char>(name[1]), '\0'};
    vr.setVR(text);
    if (vr.usesExtendedLengthEncoding()) {
      in.Take(2);
      header.length = in.Number(4);
    } else {
      header.length = in.Number(2);
    }
  } else {
    header.length = in.Number(4);
  }
  const DcmEVR evr = vr.getEVR();
  header.words = evr == EVR_OW || (evr == EVR_ox && !in.encoding().is_explicit);
  header.unknown = evr == EVR_UN || evr == EVR_UNKNOWN || evr == EVR_UNKNOWN2B;
  const bool undefined = header.length == kUndefined;
  if (undefined && header.tag == kPixelData) {
    header.kind = Kind::kFragments;
  } else if (evr == EVR_SQ || undefined) {
    header.kind = Kind::kSequence;
  }
  header.maybe_sequence = !in.encoding().is_explicit && (header.tag >> 16 & 1) != 0;
  return header;
}

// Walks over elements and counts them.
class Walk {
 public:
  int64_t elements() const { return elements_; }

  // Until the end of the item if `delimited`, else all bytes.
  void Elements(Cursor& in, bool delimited, int depth) {
    while (delimited || in.left() > 0) {
      const Header header = ReadHeader(in);
      if (delimited && header.tag == kItemEnd) return;
      Value(in, header, depth);
    }
  }

  // The value of an element.
  void Value(Cursor& in, const Header& header, int depth) {
    Require(header.tag >> 16 != 0xFFFE, "an item or its end where an element is expected");
    ++elements_;
    if (header.kind == Kind::kFragments) return Fragments(in, nullptr);
    const Encoding outside = in.encoding();
    const Encoding inside = header.unknown ? Encoding{false, false} : outside;
    if (header.kind == Kind::kSequence && header.length == kUndefined) {
      in.set_encoding(inside);
      Items(in, /*delimited=*/true, depth + 1);
      in.set_encoding(outside);
      return;
    }
    Cursor value(in.Take(header.length), inside);
    if (header.kind == Kind::kSequence) return Items(value, /*delimited=*/false, depth + 1);
    constexpr uint8_t kItemBytes[] = {0xFE, 0xFF, 0x00, 0xE0};
    if (!header.maybe_sequence || value.left() < 8 || !std::ranges::equal(kItemBytes, value.rest().first(4))) return;
    try {
      Items(value, /*delimited=*/false, depth + 1);
    } catch (const TooDeep&) {
      throw;
    } catch (const Error&) {
      // No sequence; if DCMTK takes it for one, it stops at the fault too.
    }
  }

  // The pieces of compressed pixels, into `found` if there is one.
  static void Fragments(Cursor& in, Structure* found) {
    const size_t begin = in.at();
    size_t first = 0;
    for (bool table = true;; table = false) {
      const size_t at = in.at();
      const Header item = ReadHeader(in);
      if (item.tag == kSequenceEnd) return;
      Require(item.tag == kItem && item.length != kUndefined, "compressed pixels hold something that is no fragment");
      const Bytes bytes = in.Take(item.length);
      if (found == nullptr) continue;
      if (table) {
        found->offset_table = bytes;
        first = in.at() - begin;
      } else {
        found->fragments.push_back(bytes);
        found->starts.push_back(at - begin - first);
      }
    }
  }

 private:
  // Until the end of the sequence if `delimited`, else all bytes.
  void Items(Cursor& in, bool delimited, int depth) {
    if (depth > kMaxDepth) throw TooDeep(fmt::format("more than {} sequences within each other", kMaxDepth));
    while (delimited || in.left() > 0) {
      const Header item = ReadHeader(in);
      if (delimited && item.tag == kSequenceEnd) return;
      Require(item.tag == kItem, "a sequence holds something that is no item");
      ++elements_;
      if (item.length == kUndefined) {
        Elements(in, /*delimited=*/true, depth);
      } else {
        Cursor inside(in.Take(item.length), in.encoding());
        Elements(inside, /*delimited=*/false, depth);
      }
    }
  }

  int64_t elements_ = 0;
};

bool IsExplicit(Bytes elements) { return elements.size() >= 6 && IsCapital(elements[4]) && IsCapital(elements[5]); }

// The encoding of a file that does not say it, or says another than it has.
Encoding GuessEncoding(Bytes elements, bool big) { return {.is_explicit = IsExplicit(elements), .big = big}; }

// Reads the group of elements about the file; the bytes behind it are the data set.
Bytes ReadMeta(Bytes bytes, Structure& found) {
  Cursor in(bytes, {});
  Walk walk;
  while (in.left() >= 8 && in.rest()[0] == 2 && in.rest()[1] == 0) {
    const Header header = ReadHeader(in);
    constexpr uint32_t kTransferSyntax = 0x00020010;
    constexpr size_t kMaxUid = 64;
    if (header.tag == kTransferSyntax && header.length <= kMaxUid) {
      const Bytes uid = in.Take(header.length);
      found.syntax.assign(uid.begin(), uid.end());
      while (!found.syntax.empty() && (found.syntax.back() == '\0' || found.syntax.back() == ' '))
        found.syntax.pop_back();
    } else {
      walk.Value(in, header, 0);
    }
  }
  return in.rest();
}

std::vector<uint8_t> Inflate(Bytes deflated, uint64_t limit) {
  z_stream stream{};
  Require(inflateInit2(&stream, -MAX_WBITS) == Z_OK, "zlib does not start");
  const struct End {
    z_stream& stream;
    ~End() { inflateEnd(&stream); }
  } end{stream};
  std::vector<uint8_t> out;
  constexpr size_t kStep = size_t{1} << 20;
  size_t size = 0;
  for (int result = Z_OK; result != Z_STREAM_END;) {
    if (stream.avail_in == 0) {
      const size_t more = std::min<size_t>(deflated.size(), size_t{1} << 30);
      stream.next_in = const_cast<uint8_t*>(deflated.data());
      stream.avail_in = static_cast<uInt>(more);
      deflated = deflated.subspan(more);
    }
    Require(size + kStep <= limit, "inflated, it takes more than the limit of {} bytes", limit);
    if (out.size() < size + kStep) out.resize(std::max(size + kStep, std::min<size_t>(2 * out.size(), limit)));
    stream.next_out = out.data() + size;
    stream.avail_out = static_cast<uInt>(kStep);
    result = inflate(&stream, Z_NO_FLUSH);
    Require(result == Z_OK || result == Z_STREAM_END, "its deflated elements are damaged or incomplete");
    size += kStep - stream.avail_out;
  }
  out.resize(size);
  return out;
}

// Finds where the pixels are, and checks all elements before them.
void FindPixels(Bytes elements, Structure& found) {
  Cursor in(elements, found.encoding);
  Walk walk;
  while (in.left() >= 8) {
    const size_t at = in.at();
    const Header header = ReadHeader(in);
    found.has_floats = header.tag == kFloatPixels || header.tag == kDoublePixels;
    found.has_pixels = header.tag == kPixelData;
    if (!found.has_pixels && !found.has_floats) {
      walk.Value(in, header, 0);
      continue;
    }
    found.dataset = elements.first(at);
    found.encapsulated = header.kind == Kind::kFragments;
    found.words = header.words;
    if (found.encapsulated) {
      Walk::Fragments(in, &found);
    } else {
      found.native = in.Take(header.length);
    }
    found.elements = walk.elements();
    return;
  }
  const bool padded = std::ranges::all_of(in.rest(), [](uint8_t b) { return b == 0; });
  Require(padded, "the file ends within an element");
  found.dataset = elements.first(in.at());
  found.elements = walk.elements();
}

}  // namespace

Structure ReadStructure(Bytes file, uint64_t limit) {
  Structure found;
  const bool preamble = file.size() >= kPreamble + kMagic && std::memcmp(file.data() + kPreamble, "DICM", kMagic) == 0;
  Bytes elements = ReadMeta(preamble ? file.subspan(kPreamble + kMagic) : file, found);
  if (found.syntax == "1.2.840.10008.1.2.1.99") {
    found.inflated = Inflate(elements, limit);
    elements = found.inflated;
  }
  Require(elements.size() >= 8, "the file ends before its elements");
  // Group 8 in the other order of bytes.
  const bool says_nothing = found.syntax.empty();
  found.encoding = GuessEncoding(
      elements, says_nothing ? elements[0] == 0 && elements[1] != 0 : found.syntax == "1.2.840.10008.1.2.2");
  FindPixels(elements, found);
  Require(HeldBytes(found) <= limit, "its header takes {} bytes in memory, the limit is {}", HeldBytes(found), limit);
  return found;
}

uint64_t HeldBytes(const Structure& structure) {
  return structure.inflated.size() + structure.dataset.size() +
         static_cast<uint64_t>(structure.elements) * kElementBytes +
         structure.fragments.size() * (sizeof(Bytes) + sizeof(uint64_t));
}

namespace {

// Without a table: each fragment that begins as a picture does begins a frame.
bool BeginsPicture(Bytes fragment) {
  return fragment.size() >= 2 && fragment[0] == 0xFF && (fragment[1] == 0xD8 || fragment[1] == 0x4F);
}

uint64_t TableEntry(Bytes table, size_t i) {
  uint64_t value = 0;
  for (size_t b = 0; b < 4; ++b) value |= uint64_t{table[4 * i + b]} << (8 * b);
  return value;
}

}  // namespace

std::pair<size_t, size_t> FragmentsOf(const Structure& structure, int64_t frame, int64_t frames,
                                      std::span<const uint64_t> extended) {
  const size_t count = structure.fragments.size(), k = static_cast<size_t>(frame), n = static_cast<size_t>(frames);
  Require(frame >= 0 && frame < frames, "frame {} of {}", frame, frames);
  if (n == 1) return {0, count};
  if (count == n) return {k, k + 1};
  Require(count > n, "{} frames are declared, and there are {} compressed pieces", frames, count);
  const size_t table = structure.offset_table.size() / 4;
  if (table >= n || extended.size() >= n) {
    const auto start = [&](size_t i) {
      if (i == n) return count;
      const uint64_t offset = table >= n ? TableEntry(structure.offset_table, i) : extended[i];
      const auto found = std::ranges::lower_bound(structure.starts, offset);
      Require(found != structure.starts.end() && *found == offset, "its table of offsets names no piece for frame {}",
              i);
      return static_cast<size_t>(found - structure.starts.begin());
    };
    const std::pair range(start(k), start(k + 1));
    Require(range.first < range.second, "its table of offsets is not in order at frame {}", frame);
    return range;
  }
  size_t seen = 0, first = count, last = count;
  for (size_t i = 0; i < count; ++i) {
    if (!BeginsPicture(structure.fragments[i])) continue;
    if (seen == k) first = i;
    if (seen == k + 1) last = i;
    ++seen;
  }
  Require(seen == n && first < last,
          "{} frames are declared in {} compressed pieces, and no table says which are whose", frames, count);
  return {first, last};
}

}  // namespace qkv::dicom
