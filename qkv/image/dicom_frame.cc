// The frames of a DICOM file: what the header says of them, and their samples.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/core/work.h"
#include "qkv/image/dicom_file.h"
#include "qkv/image/jpeg2000.h"
#include "qkv/image/runs.h"

namespace qkv::image {
namespace {

constexpr DicomStep kSopClass{0x0008, 0x0016, 0}, kSamples{0x0028, 0x0002, 0}, kPhotometric{0x0028, 0x0004, 0},
    kPlanar{0x0028, 0x0006, 0}, kFrames{0x0028, 0x0008, 0}, kRows{0x0028, 0x0010, 0}, kColumns{0x0028, 0x0011, 0},
    kAllocated{0x0028, 0x0100, 0}, kStored{0x0028, 0x0101, 0}, kHighBit{0x0028, 0x0102, 0},
    kRepresentation{0x0028, 0x0103, 0};
// What the module or OpenJPEG takes for a sample beside the result.
constexpr int64_t kDecoderBytes = 16;
// A step of Spend is a few nanoseconds; decoders take some tens for a sample.
constexpr int64_t kDicomStepsPerSample = 8;

struct Holds {
  std::string_view uid;  // a prefix of the SOP class, behind 1.2.840.10008.5.1.4.1.1
  const char* what;
};

// Objects without frames of pixels. The longest prefix that fits comes first.
constexpr Holds kWithoutPixels[] = {
    {".88", "a structured report"},
    {".104.1", "a PDF document (its text can be had by dcm2pdf of DCMTK)"},
    {".104", "a document or a model for printing"},
    {".11", "a presentation state, which says how another picture is shown"},
    {".9", "a waveform"},
    {".481", "a plan or structures of radiotherapy"},
    {".66", "a registration, points or a surface"},
    {".91", "annotations of a slide"},
};

[[noreturn]] void RefuseWithoutPixels(const DicomFile& file) {
  constexpr std::string_view kImages = "1.2.840.10008.5.1.4.1.1", kDirectory = "1.2.840.10008.1.3.10";
  const std::string sop = file.Text(kSopClass);
  const char* what = "no pixels";
  if (sop.starts_with(kImages)) {
    for (const Holds& holds : kWithoutPixels) {
      const std::string_view rest = std::string_view(sop).substr(kImages.size());
      if (!rest.starts_with(holds.uid) || (rest.size() > holds.uid.size() && rest[holds.uid.size()] != '.')) continue;
      what = holds.what;
      break;
    }
  } else if (sop == kDirectory || file.Items(DicomStep{0x0004, 0x1220, 0}) > 0) {
    what = "a directory of other files (DICOMDIR); name their folder instead";
  }
  Fail("{}: a DICOM file that holds {}, not an image", file.where(), what);
}

void RequireDecodable(const DicomFile& file) {
  switch (file.facts().coding) {
    case kQkvDicomNone:
      RefuseWithoutPixels(file);
    case kQkvDicomFloat:
      Fail("{}: a DICOM file of floating-point pixels, which qkv does not read; expected integers", file.where());
    case kQkvDicomOther:
      Fail(
          "{}: a DICOM file whose pixels are compressed as {}; qkv reads uncompressed ones, RLE, JPEG, JPEG-LS and "
          "JPEG 2000",
          file.where(), file.facts().syntax);
    default:
      return;
  }
}

// A number of the header, which must be there unless there is a default, and in [least, most].
int64_t HeaderNumber(const DicomFile& file, DicomStep element, const char* name, int64_t least, int64_t most,
                     std::optional<int64_t> otherwise = {}) {
  const std::optional<double> value = file.Number(element);
  Require(value.has_value() || otherwise.has_value(), "{}: DICOM: there is no {}", file.where(), name);
  const double number = value ? *value : static_cast<double>(*otherwise);
  Require(number >= static_cast<double>(least) && number <= static_cast<double>(most),
          "{}: DICOM: {} is {}, expected {} to {}", file.where(), name, number, least, most);
  return static_cast<int64_t>(number);
}

int64_t FrameBits(const DicomLayout& l) {
  if (l.photometric == "YBR_FULL_422") return l.rows * l.columns * 2 * l.allocated;
  return l.rows * l.columns * l.samples * l.allocated;
}

// Values of the frame in the file, from their words of `allocated` bits, as far as `stored` and the sign go.
class StoredValue {
 public:
  StoredValue(int stored, int shift, bool is_signed)
      : shift_(shift),
        mask_(stored == 32 ? ~uint32_t{0} : (uint32_t{1} << stored) - 1),
        sign_(is_signed ? uint32_t{1} << (stored - 1) : 0) {}
  int32_t operator()(uint32_t word) const {
    const uint32_t value = word >> shift_ & mask_;
    return static_cast<int32_t>((value ^ sign_) - sign_);
  }

 private:
  int shift_;
  uint32_t mask_, sign_;
};

// Words of an uncompressed frame.
class NativeWords {
 public:
  NativeWords(const QkvDicomFacts& facts, int allocated, uint64_t first_bit)
      : bytes_(facts.native),
        allocated_(allocated),
        first_(first_bit),
        big_(facts.native_big != 0),
        swapped_(facts.native_big != 0 && facts.native_words != 0) {}
  uint32_t operator[](int64_t index) const {
    const auto i = static_cast<uint64_t>(index);
    if (allocated_ == 1) {
      const uint64_t bit = first_ + i;
      return bytes_[Place(bit / 8)] >> (bit % 8) & 1u;
    }
    const auto size = static_cast<uint64_t>(allocated_ / 8), at = first_ / 8 + i * size;
    if (size == 1) return bytes_[Place(at)];
    uint32_t word = 0;
    for (uint64_t b = 0; b < size; ++b) word |= uint32_t{bytes_[at + (big_ ? size - 1 - b : b)]} << (8 * b);
    return word;
  }

 private:
  // Bytes in words of 16 bits are stored in the words' order.
  uint64_t Place(uint64_t byte) const { return swapped_ ? byte ^ 1 : byte; }

  const uint8_t* bytes_;
  int allocated_;
  uint64_t first_;
  bool big_, swapped_;
};

void ReadNative(const DicomFile& file, const DicomLayout& l, int64_t frame, DicomSamples& out) {
  const QkvDicomFacts& facts = file.facts();
  const int64_t pixels = l.rows * l.columns;
  const auto bits = static_cast<uint64_t>(FrameBits(l)), begin = bits * static_cast<uint64_t>(frame);
  const uint64_t end_byte = (begin + bits + 7) / 8, needed = facts.native_words ? end_byte + end_byte % 2 : end_byte;
  Require(needed <= facts.native_size || (!facts.native_big && end_byte <= facts.native_size),
          "{}: DICOM: {} bytes of pixels, expected {} for {} frames of {} x {} pixels", file.where(), facts.native_size,
          (bits * static_cast<uint64_t>(l.frames) + 7) / 8, l.frames, l.columns, l.rows);
  const NativeWords words(facts, l.allocated, begin);
  const StoredValue value(l.stored, l.shift, l.is_signed);
  int32_t* const to = out.values.data();
  if (l.photometric == "YBR_FULL_422") {  // Y Y Cb Cr for two pixels
    for (int64_t i = 0; i + 1 < pixels; i += 2) {
      for (int64_t k = 0; k < 2; ++k) {
        to[3 * (i + k)] = value(words[2 * i + k]);
        to[3 * (i + k) + 1] = value(words[2 * i + 2]);
        to[3 * (i + k) + 2] = value(words[2 * i + 3]);
      }
    }
    return;
  }
  ForEachRun(pixels, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      for (int64_t s = 0; s < l.samples; ++s) {
        to[i * l.samples + s] = value(words[l.planar ? s * pixels + i : i * l.samples + s]);
      }
    }
  });
}

QkvDicomFrame ToModule(const DicomLayout& l, int64_t frame) {
  QkvDicomFrame to{frame,
                   l.frames,
                   static_cast<int32_t>(l.rows),
                   static_cast<int32_t>(l.columns),
                   l.samples,
                   l.allocated,
                   l.stored,
                   l.shift + l.stored - 1,
                   l.is_signed,
                   {}};
  l.photometric.copy(to.photometric, sizeof to.photometric - 1);
  return to;
}

void ReadDecoded(const DicomFile& file, const DicomLayout& l, int64_t frame, DicomSamples& out) {
  QkvDicomFrame asked = ToModule(l, frame);
  const int64_t count = l.rows * l.columns * l.samples, size = count * (l.allocated / 8), even = size + size % 2;
  out.undecoded.Reuse({even});
  QkvDicomText why{};
  Require(file.module().decode(file.handle(), &asked, out.undecoded.data(), static_cast<uint64_t>(even), &why) != 0,
          "{}: DICOM: {}: {}", file.where(), file.facts().syntax, why.text);
  const QkvDicomFacts decoded{.native = out.undecoded.data()};
  const NativeWords words(decoded, l.allocated, 0);
  const StoredValue value(l.stored, l.shift, l.is_signed);
  int32_t* const to = out.values.data();
  ForEachRun(count, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) to[i] = value(words[i]);
  });
  out.photometric = asked.photometric;
}

void ReadJpeg2000(const DicomFile& file, const DicomLayout& l, int64_t frame, DicomSamples& out) {
  const QkvDicomFrame asked = ToModule(l, frame);
  std::vector<std::byte> bytes;
  QkvDicomText why{};
  const auto append = [](void* to, const uint8_t* piece, uint64_t size) {
    auto* const all = static_cast<std::vector<std::byte>*>(to);
    const auto* const begin = reinterpret_cast<const std::byte*>(piece);
    all->insert(all->end(), begin, begin + size);
  };
  Require(file.module().encoded(file.handle(), &asked, append, &bytes, &why) != 0, "{}: DICOM: {}", file.where(),
          why.text);
  const Jpeg2000 decoded = DecodeJpeg2000(bytes, l.rows * l.columns, file.where());
  Require(
      decoded.samples.dim(0) == l.rows && decoded.samples.dim(1) == l.columns && decoded.samples.dim(2) == l.samples,
      "{}: DICOM: a JPEG 2000 of {} x {} pixels of {} samples; the header says {} x {} of {}", file.where(),
      decoded.samples.dim(1), decoded.samples.dim(0), decoded.samples.dim(2), l.columns, l.rows, l.samples);
  // Whether numbers have a sign, DICOM's header decides: some writers say otherwise in JPEG 2000's.
  const StoredValue value(decoded.bits, 0, l.is_signed);
  const int32_t* const in = decoded.samples.data();
  int32_t* const to = out.values.data();
  ForEachRun(decoded.samples.size(), [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) to[i] = value(static_cast<uint32_t>(in[i]));
  });
  out.bits = decoded.bits;
  // OpenJPEG undoes the transforms of the codestream.
  if (l.photometric == "YBR_RCT" || l.photometric == "YBR_ICT") out.photometric = "RGB";
  if (decoded.is_ycc && l.samples == 3) out.photometric = "YBR_FULL";
}

struct DicomPalette {
  int64_t first = 0;
  std::vector<double> entries;
  int bits = 8;
};

DicomPalette ReadPalette(const DicomFile& file, const DicomLayout& l, uint16_t colour) {
  const auto part = [&](uint16_t element) { return DicomStep{0x0028, static_cast<uint16_t>(element + colour), 0}; };
  const auto [count, first, bits] = ReadDicomTableShape(file, file.Numbers(part(0x1101)), l.is_signed);
  DicomPalette palette;
  palette.first = first;
  palette.entries = file.Numbers(part(0x1201));
  Require(!palette.entries.empty(),
          "{}: DICOM: a palette in segments, which qkv does not read (gdcmconv "
          "--apply-lut writes plain colours)",
          file.where());
  // Entries of 8 bits, two in a word.
  if (std::ssize(palette.entries) * 2 == count + count % 2 && std::ssize(palette.entries) < count) {
    std::vector<double> bytes;
    for (const double word : palette.entries) {
      const auto both = static_cast<uint32_t>(word);
      bytes.push_back(both & 0xFF);
      bytes.push_back(both >> 8);
    }
    palette.entries = std::move(bytes);
  } else {
    palette.bits = bits == 8 ? 8 : 16;
  }
  Require(std::ssize(palette.entries) >= count, "{}: DICOM: a palette of {} entries, {} are declared", file.where(),
          palette.entries.size(), count);
  palette.entries.resize(static_cast<size_t>(count));
  return palette;
}

void ExpandPalette(const DicomFile& file, const DicomLayout& l, const DicomSamples& samples, uint8_t* rgb) {
  for (uint16_t colour = 0; colour < 3; ++colour) {
    const DicomPalette palette = ReadPalette(file, l, colour);
    const int shift = palette.bits - 8;
    std::vector<uint8_t> bytes;
    for (const double entry : palette.entries) {
      bytes.push_back(static_cast<uint8_t>(static_cast<uint32_t>(entry) >> shift));
    }
    const int32_t* const in = samples.values.data();
    ForEachRun(l.rows * l.columns, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t index = std::clamp<int64_t>(in[i] - palette.first, 0, std::ssize(bytes) - 1);
        rgb[3 * i + colour] = bytes[static_cast<size_t>(index)];
      }
    });
  }
}

// PS3.3 C.7.6.3.1.2, the inverse of YBR_FULL.
void YbrToRgb(const int32_t* in, uint8_t* out) {
  const float y = static_cast<float>(in[0]), cb = static_cast<float>(in[1] - 128), cr = static_cast<float>(in[2] - 128);
  constexpr float kBlue = 1.772F, kRed = 1.402F, kGreenBlue = 0.114F * 1.772F / 0.587F,
                  kGreenRed = 0.299F * 1.402F / 0.587F;
  const auto level = [](float v) { return static_cast<uint8_t>(std::clamp(std::floor(v + 0.5F), 0.0F, 255.0F)); };
  out[0] = level(y + kRed * cr);
  out[1] = level(y - kGreenBlue * cb - kGreenRed * cr);
  out[2] = level(y + kBlue * cb);
}

}  // namespace

DicomTableShape ReadDicomTableShape(const DicomFile& file, std::span<const double> numbers, bool is_signed) {
  constexpr double kMost = 65536;  // written as 0, and as a negative number where 16 bits were read with a sign
  const bool known = numbers.size() == 3 && numbers[0] > -kMost && numbers[0] <= kMost &&
                     std::abs(numbers[1]) <= kMost && numbers[2] >= 1;
  Require(known, "{}: DICOM: a table whose description is {}; expected a number of entries, the first, and bits",
          file.where(), numbers.empty() ? "missing" : "none");
  DicomTableShape shape{.count = static_cast<int64_t>(numbers[0]), .first = static_cast<int64_t>(numbers[1])};
  if (shape.count <= 0) shape.count += static_cast<int64_t>(kMost);
  if (is_signed && shape.first > 32767) shape.first -= static_cast<int64_t>(kMost);
  shape.bits = static_cast<int>(std::min(numbers[2], 16.0));
  return shape;
}

DicomLayout ReadDicomLayout(const DicomFile& file) {
  RequireDecodable(file);
  constexpr int64_t kMaxSide = 65535, kMaxFrames = 1 << 24;
  DicomLayout l;
  l.rows = HeaderNumber(file, kRows, "Rows", 1, kMaxSide);
  l.columns = HeaderNumber(file, kColumns, "Columns", 1, kMaxSide);
  l.frames = HeaderNumber(file, kFrames, "Number of Frames", 1, kMaxFrames, 1);
  l.samples = static_cast<int>(HeaderNumber(file, kSamples, "Samples per Pixel", 1, 3, 1));
  l.allocated = static_cast<int>(HeaderNumber(file, kAllocated, "Bits Allocated", 1, 32));
  l.stored = static_cast<int>(HeaderNumber(file, kStored, "Bits Stored", 1, l.allocated, l.allocated));
  const int64_t high = HeaderNumber(file, kHighBit, "High Bit", l.stored - 1, l.allocated - 1, l.stored - 1);
  l.shift = static_cast<int>(high) - l.stored + 1;
  l.is_signed = HeaderNumber(file, kRepresentation, "Pixel Representation", 0, 1, 0) == 1;
  l.planar = l.samples == 3 && HeaderNumber(file, kPlanar, "Planar Configuration", 0, 1, 0) == 1;
  l.photometric = file.Text(kPhotometric);
  constexpr std::string_view kGrey[] = {"MONOCHROME1", "MONOCHROME2", "PALETTE COLOR"};
  constexpr std::string_view kColour[] = {"RGB", "YBR_FULL", "YBR_FULL_422", "YBR_RCT", "YBR_ICT"};
  const bool one = std::ranges::count(kGrey, l.photometric) > 0, three = std::ranges::count(kColour, l.photometric) > 0;
  Require((one && l.samples == 1) || (three && l.samples == 3),
          "{}: DICOM: {} samples a pixel, and no colours of them that qkv reads: expected MONOCHROME1, MONOCHROME2 or "
          "PALETTE COLOR of one, RGB, YBR_FULL, YBR_FULL_422, YBR_RCT or YBR_ICT of three",
          file.where(), l.samples);
  const bool whole = l.allocated == 8 || l.allocated == 16 || l.allocated == 32;
  Require(whole || (l.allocated == 1 && file.facts().coding != kQkvDicomDecoded),
          "{}: DICOM: {} bits allocated, expected 1, 8, 16 or 32", file.where(), l.allocated);
  const bool ybr = l.photometric.starts_with("YBR");
  Require(!ybr || l.allocated == 8, "{}: DICOM: YBR of {} bits, expected 8", file.where(), l.allocated);
  if (l.photometric == "YBR_FULL_422" && file.facts().coding == kQkvDicomNative) {
    Require(l.columns % 2 == 0, "{}: DICOM: an odd width of pairs of pixels", file.where());
    l.planar = false;
  }
  return l;
}

int64_t DicomFrameBytes(const DicomFile& file, const DicomLayout& l) {
  const int64_t values = l.rows * l.columns * l.samples * static_cast<int64_t>(sizeof(int32_t));
  const int64_t held = static_cast<int64_t>(file.facts().held);
  if (file.facts().coding == kQkvDicomNative) return held + values;
  return held + values + l.rows * l.columns * l.samples * (l.allocated / 8 + kDecoderBytes);
}

void ReadDicomFrame(const DicomFile& file, const DicomLayout& l, int64_t frame, DicomSamples& samples) {
  Require(frame >= 0 && frame < l.frames, "{}: DICOM: frame {}, expected 0 to {}", file.where(), frame, l.frames - 1);
  Spend(kDicomStepsPerSample * l.rows * l.columns * l.samples);
  samples.values.Reuse({l.rows, l.columns, l.samples});
  samples.photometric = l.photometric;
  samples.bits = l.stored;
  switch (file.facts().coding) {
    case kQkvDicomDecoded:
      return ReadDecoded(file, l, frame, samples);
    case kQkvDicomJpeg2000:
      return ReadJpeg2000(file, l, frame, samples);
    default:
      ReadNative(file, l, frame, samples);
      if (l.photometric == "YBR_FULL_422") samples.photometric = "YBR_FULL";
  }
}

void DicomToRgb(const DicomFile& file, const DicomLayout& l, const DicomSamples& samples, uint8_t* rgb) {
  if (samples.photometric == "PALETTE COLOR") return ExpandPalette(file, l, samples, rgb);
  const bool ybr = samples.photometric.starts_with("YBR") && samples.bits == 8;
  const uint32_t full = samples.bits >= 8 ? 255 : (1u << samples.bits) - 1;
  const int shift = std::max(samples.bits - 8, 0);
  const int32_t* const in = samples.values.data();
  ForEachRun(l.rows * l.columns, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (ybr) {
        YbrToRgb(in + 3 * i, rgb + 3 * i);
        continue;
      }
      for (int64_t c = 3 * i; c < 3 * i + 3; ++c) {
        rgb[c] = static_cast<uint8_t>((static_cast<uint32_t>(in[c]) >> shift) * 255 / full);
      }
    }
  });
}

}  // namespace qkv::image
