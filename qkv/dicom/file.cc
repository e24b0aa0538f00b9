#include "qkv/dicom/file.h"

#include <dcmtk/dcmdata/dcistrmb.h>
#include <dcmtk/dcmdata/dcrledrg.h>
#include <dcmtk/dcmdata/dcspchrs.h>
#include <dcmtk/dcmjpeg/djdecode.h>
#include <dcmtk/dcmjpls/djdecode.h>
#include <dcmtk/oflog/oflog.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

#include "qkv/core/error.h"

namespace qkv::dicom {
namespace {

struct Syntax {
  std::string_view uid;  // behind 1.2.840.10008.1.2
  const char* name;
  QkvDicomCoding coding;
};

constexpr Syntax kSyntaxes[] = {
    {"", "implicit little-endian", kQkvDicomNative},
    {".1", "explicit little-endian", kQkvDicomNative},
    {".1.99", "deflated", kQkvDicomNative},
    {".2", "big-endian", kQkvDicomNative},
    {".5", "RLE", kQkvDicomDecoded},
    {".4.50", "JPEG baseline", kQkvDicomDecoded},
    {".4.51", "JPEG extended", kQkvDicomDecoded},
    {".4.53", "JPEG spectral selection", kQkvDicomDecoded},
    {".4.55", "JPEG progressive", kQkvDicomDecoded},
    {".4.57", "JPEG lossless", kQkvDicomDecoded},
    {".4.70", "JPEG lossless", kQkvDicomDecoded},
    {".4.80", "JPEG-LS lossless", kQkvDicomDecoded},
    {".4.81", "JPEG-LS near-lossless", kQkvDicomDecoded},
    {".4.90", "JPEG 2000 lossless", kQkvDicomJpeg2000},
    {".4.91", "JPEG 2000", kQkvDicomJpeg2000},
    {".4.201", "HTJ2K lossless", kQkvDicomJpeg2000},
    {".4.202", "HTJ2K lossless", kQkvDicomJpeg2000},
    {".4.203", "HTJ2K", kQkvDicomJpeg2000},
    {".4.92", "JPEG 2000 part 2", kQkvDicomOther},
    {".4.93", "JPEG 2000 part 2", kQkvDicomOther},
    {".4.94", "JPIP", kQkvDicomOther},
    {".4.95", "JPIP", kQkvDicomOther},
    {".4.100", "MPEG-2 video", kQkvDicomOther},
    {".4.101", "MPEG-2 video", kQkvDicomOther},
    {".4.102", "MPEG-4 video", kQkvDicomOther},
    {".4.103", "MPEG-4 video", kQkvDicomOther},
    {".4.104", "MPEG-4 video", kQkvDicomOther},
    {".4.105", "MPEG-4 video", kQkvDicomOther},
    {".4.106", "MPEG-4 video", kQkvDicomOther},
    {".4.107", "HEVC video", kQkvDicomOther},
    {".4.108", "HEVC video", kQkvDicomOther},
    {".4.110", "JPEG XL", kQkvDicomOther},
    {".4.111", "JPEG XL", kQkvDicomOther},
    {".4.112", "JPEG XL", kQkvDicomOther},
};

const Syntax* FindSyntax(std::string_view uid) {
  constexpr std::string_view kPrefix = "1.2.840.10008.1.2";
  if (!uid.starts_with(kPrefix)) return nullptr;
  const auto found = std::ranges::find(kSyntaxes, uid.substr(kPrefix.size()), &Syntax::uid);
  return found == std::end(kSyntaxes) ? nullptr : found;
}

// Values of one element by its own type; none for text that is no number.
template <typename Value, typename Get>
int64_t Copy(DcmElement& element, std::span<double> out, Get get) {
  const auto count = static_cast<int64_t>(element.getNumberOfValues());
  for (int64_t i = 0; i < std::min<int64_t>(count, std::ssize(out)); ++i) {
    Value value{};
    if (get(static_cast<unsigned long>(i), value).bad()) return 0;
    out[static_cast<size_t>(i)] = static_cast<double>(value);
  }
  return count;
}

int64_t CopyWords(DcmElement& element, std::span<double> out) {
  Uint16* words = nullptr;
  if (element.getUint16Array(words).bad() || words == nullptr) return 0;
  const int64_t count = element.getLength() / 2;
  for (int64_t i = 0; i < std::min<int64_t>(count, std::ssize(out)); ++i) out[static_cast<size_t>(i)] = words[i];
  return count;
}

int64_t CopyBytes(DcmElement& element, std::span<double> out) {
  Uint8* bytes = nullptr;
  if (element.getUint8Array(bytes).bad() || bytes == nullptr) return 0;
  const int64_t count = element.getLength();
  for (int64_t i = 0; i < std::min<int64_t>(count, std::ssize(out)); ++i) out[static_cast<size_t>(i)] = bytes[i];
  return count;
}

int64_t CopyNumbers(DcmElement& e, std::span<double> out) {
  switch (e.getVR()) {
    case EVR_US:
    case EVR_xs:
      return Copy<Uint16>(e, out, [&](unsigned long i, Uint16& v) { return e.getUint16(v, i); });
    case EVR_SS:
      return Copy<Sint16>(e, out, [&](unsigned long i, Sint16& v) { return e.getSint16(v, i); });
    case EVR_UL:
      return Copy<Uint32>(e, out, [&](unsigned long i, Uint32& v) { return e.getUint32(v, i); });
    case EVR_SL:
      return Copy<Sint32>(e, out, [&](unsigned long i, Sint32& v) { return e.getSint32(v, i); });
    case EVR_FL:
      return Copy<Float32>(e, out, [&](unsigned long i, Float32& v) { return e.getFloat32(v, i); });
    case EVR_FD:
      return Copy<Float64>(e, out, [&](unsigned long i, Float64& v) { return e.getFloat64(v, i); });
    case EVR_DS:
      return Copy<Float64>(e, out, [&](unsigned long i, Float64& v) { return e.getFloat64(v, i); });
    case EVR_IS:
      return Copy<Sint32>(e, out, [&](unsigned long i, Sint32& v) { return e.getSint32(v, i); });
    case EVR_OW:
    case EVR_lt:
      return CopyWords(e, out);
    case EVR_OB:
    case EVR_ox:
      return CopyBytes(e, out);
    default:
      return 0;
  }
}

bool IsText(DcmEVR vr) {
  switch (vr) {
    case EVR_OB:
    case EVR_OW:
    case EVR_OF:
    case EVR_OD:
    case EVR_OL:
    case EVR_OV:
    case EVR_ox:
    case EVR_lt:
    case EVR_SQ:
    case EVR_UN:
    case EVR_UNKNOWN:
    case EVR_UNKNOWN2B:
    case EVR_PixelData:
    case EVR_OverlayData:
      return false;
    default:
      return true;
  }
}

}  // namespace

void StartDcmtk() {
  static const bool started = [] {
    OFLog::configure(OFLogger::OFF_LOG_LEVEL);
    DcmRLEDecoderRegistration::registerCodecs();
    DJDecoderRegistration::registerCodecs(EDC_photometricInterpretation, EUC_default, EPC_colorByPixel);
    DJLSDecoderRegistration::registerCodecs(EJLSUC_default, EJLSPC_colorByPixel);
    return true;
  }();
  (void)started;
}

File::File(Bytes bytes, uint64_t limit) : structure_(ReadStructure(bytes, limit)), data_(new DcmDataset) {
  DcmInputBufferStream stream;
  stream.setBuffer(structure_.dataset.data(), static_cast<offile_off_t>(structure_.dataset.size()));
  stream.setEos();
  const Encoding encoding = structure_.encoding;
  const E_TransferSyntax syntax = !encoding.is_explicit ? EXS_LittleEndianImplicit
                                  : encoding.big        ? EXS_BigEndianExplicit
                                                        : EXS_LittleEndianExplicit;
  data_->transferInit();
  const OFCondition read = data_->read(stream, syntax, EGL_noChange, DCM_MaxReadLength);
  data_->transferEnd();
  Require(read.good() || read == EC_EndOfStream, "DCMTK cannot read its header (code {}.{})", read.module(),
          read.code());
  const Uint8* offsets = nullptr;
  unsigned long count = 0;
  if (data_->findAndGetUint8Array(DCM_ExtendedOffsetTable, offsets, &count).good() && offsets != nullptr) {
    extended_offsets_.resize(count / sizeof(uint64_t));
    std::memcpy(extended_offsets_.data(), offsets, extended_offsets_.size() * sizeof(uint64_t));
  }
}

QkvDicomFacts File::facts() const {
  const Syntax* const syntax = FindSyntax(structure_.syntax);
  QkvDicomFacts facts{};
  facts.syntax = syntax != nullptr ? syntax->name : "an unknown transfer syntax";
  facts.coding = structure_.has_floats               ? kQkvDicomFloat
                 : !structure_.has_pixels            ? kQkvDicomNone
                 : !structure_.encapsulated          ? kQkvDicomNative
                 : syntax == nullptr                 ? kQkvDicomOther
                 : syntax->coding == kQkvDicomNative ? kQkvDicomOther
                                                     : syntax->coding;
  facts.native_big = structure_.encoding.big;
  facts.native_words = structure_.words;
  facts.native = structure_.native.data();
  facts.native_size = structure_.native.size();
  facts.held = HeldBytes(structure_);
  return facts;
}

DcmItem* File::ItemAt(const QkvDicomStep& step, DcmItem* within) const {
  const DcmTagKey key(step.group, step.element);
  if (within != data_.get()) {
    DcmItem* item = nullptr;
    return within->findAndGetSequenceItem(key, item, static_cast<signed long>(step.item)).good() ? item : nullptr;
  }
  const auto [place, isnew] = items_.try_emplace(uint32_t{step.group} << 16 | step.element);
  std::vector<DcmItem*>& items = place->second;
  DcmSequenceOfItems* sequence = nullptr;
  if (isnew && data_->findAndGetSequence(key, sequence).good() && sequence != nullptr) {
    for (DcmObject* item = sequence->nextInContainer(nullptr); item != nullptr;
         item = sequence->nextInContainer(item)) {
      if (auto* const known = dynamic_cast<DcmItem*>(item)) items.push_back(known);
    }
  }
  return step.item >= 0 && step.item < std::ssize(items) ? items[static_cast<size_t>(step.item)] : nullptr;
}

DcmElement* File::Find(std::span<const QkvDicomStep> path) const {
  DcmItem* item = data_.get();
  for (const QkvDicomStep& step : path.first(path.size() - 1)) {
    item = ItemAt(step, item);
    if (item == nullptr) return nullptr;
  }
  DcmElement* element = nullptr;
  const bool found = item->findAndGetElement(DcmTagKey(path.back().group, path.back().element), element).good();
  return found ? element : nullptr;
}

int64_t File::Numbers(std::span<const QkvDicomStep> path, std::span<double> values) const {
  const std::lock_guard lock(mutex_);
  DcmElement* const element = Find(path);
  return element != nullptr ? CopyNumbers(*element, values) : 0;
}

int64_t File::Text(std::span<const QkvDicomStep> path, std::span<char> text) const {
  const std::lock_guard lock(mutex_);
  DcmElement* const element = Find(path);
  if (element == nullptr || !IsText(element->getVR())) return -1;
  OFString value;
  if (element->getOFStringArray(value).bad()) return -1;
  OFString set, converted;
  DcmSpecificCharacterSet characters;
  // A set that DCMTK does not know: as it is.
  if (data_->findAndGetOFStringArray(DCM_SpecificCharacterSet, set).good() &&
      characters.selectCharacterSet(set).good() && characters.convertString(value, converted).good()) {
    value = converted;
  }
  std::copy_n(value.data(), std::min(value.size(), text.size()), text.data());
  return static_cast<int64_t>(value.size());
}

int64_t File::Items(std::span<const QkvDicomStep> path) const {
  const std::lock_guard lock(mutex_);
  const auto* const sequence = dynamic_cast<DcmSequenceOfItems*>(Find(path));
  return sequence != nullptr ? static_cast<int64_t>(const_cast<DcmSequenceOfItems*>(sequence)->card()) : 0;
}

}  // namespace qkv::dicom
