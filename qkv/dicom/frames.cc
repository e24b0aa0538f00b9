// Frames that DCMTK decodes: RLE, JPEG, JPEG-LS. Each is given to it alone, as a data set of one frame.
#include <dcmtk/config/osconfig.h>
#include <dcmtk/dcmdata/dcpixel.h>
#include <dcmtk/dcmdata/dcpixseq.h>
#include <dcmtk/dcmdata/dcpxitem.h>
#include <dcmtk/dcmdata/dctk.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "qkv/core/error.h"
#include "qkv/dicom/file.h"

namespace qkv::dicom {
namespace {

void RequireGood(const OFCondition& condition, const char* what) {
  Require(condition.good(), "DCMTK: {} (code {}.{})", what, condition.module(), condition.code());
}

struct PictureSize {
  int rows, columns, samples, bits;
};

// The size in the header of a JPEG or JPEG-LS picture: decoders allocate by it, not by DICOM's.
std::optional<PictureSize> SizeOfJpeg(Bytes jpeg) {
  size_t at = 2;
  while (at + 4 <= jpeg.size()) {
    if (jpeg[at] != 0xFF) return {};
    const uint8_t marker = jpeg[at + 1];
    if (marker == 0xFF) {
      ++at;
      continue;
    }
    const bool alone = marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8);
    if (alone) {
      at += 2;
      continue;
    }
    const size_t length = size_t{jpeg[at + 2]} << 8 | jpeg[at + 3];
    const bool frame =
        (marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC) || marker == 0xF7;
    if (frame) {
      if (at + 10 > jpeg.size()) return {};
      const uint8_t* const p = jpeg.data() + at + 4;
      return PictureSize{p[1] << 8 | p[2], p[3] << 8 | p[4], p[5], p[0]};
    }
    at += 2 + length;
  }
  return {};
}

void CheckJpeg(Bytes jpeg, const QkvDicomFrame& frame) {
  Require(jpeg.size() >= 2 && jpeg[0] == 0xFF && jpeg[1] == 0xD8, "a frame that is no JPEG");
  const std::optional<PictureSize> size = SizeOfJpeg(jpeg);
  Require(size.has_value(), "a JPEG without a frame header");
  Require(size->rows == frame.rows && size->columns == frame.columns && size->samples == frame.samples,
          "a JPEG of {} x {} pixels of {} samples; DICOM's header says {} x {} of {}", size->columns, size->rows,
          size->samples, frame.columns, frame.rows, frame.samples);
  Require(size->bits <= frame.allocated, "a JPEG of {} bits; DICOM's header has {} allocated", size->bits,
          frame.allocated);
}

// The header of an RLE frame: DCMTK reads where it points to.
void CheckRle(Bytes rle, const QkvDicomFrame& frame) {
  constexpr size_t kHeader = 64;
  Require(rle.size() >= kHeader, "an RLE frame of {} bytes", rle.size());
  const auto number = [&](size_t i) {
    uint32_t value = 0;
    for (size_t b = 0; b < 4; ++b) value |= uint32_t{rle[4 * i + b]} << (8 * b);
    return value;
  };
  const auto segments = static_cast<uint32_t>(frame.samples * (frame.allocated / 8));
  Require(number(0) == segments, "an RLE frame of {} segments, expected {}", number(0), segments);
  for (uint32_t i = 0, least = kHeader; i < segments; ++i) {
    const uint32_t offset = number(i + 1);
    Require(offset >= least && offset <= rle.size(), "an RLE frame whose segment {} begins at {} of {} bytes", i,
            offset, rle.size());
    least = offset;
  }
}

}  // namespace

void DecodeFrame(const File& file, QkvDicomFrame& frame, std::span<uint8_t> pixels) {
  const Structure& structure = file.structure();
  const auto [first, last] = FragmentsOf(structure, frame.frame, frame.frames, file.extended_offsets());
  std::vector<uint8_t> bytes;
  for (size_t i = first; i < last; ++i) {
    bytes.insert(bytes.end(), structure.fragments[i].begin(), structure.fragments[i].end());
  }
  const E_TransferSyntax syntax = DcmXfer(structure.syntax.c_str()).getXfer();
  if (syntax == EXS_RLELossless) {
    CheckRle(bytes, frame);
  } else {
    CheckJpeg(bytes, frame);
  }
  DcmDataset data;
  const auto put = [&](const DcmTagKey& key, int32_t value) {
    RequireGood(data.putAndInsertUint16(DcmTag(key), static_cast<Uint16>(value)), "no frame");
  };
  put(DCM_Rows, frame.rows);
  put(DCM_Columns, frame.columns);
  put(DCM_SamplesPerPixel, frame.samples);
  put(DCM_BitsAllocated, frame.allocated);
  put(DCM_BitsStored, frame.stored);
  put(DCM_HighBit, frame.high_bit);
  put(DCM_PixelRepresentation, frame.is_signed);
  put(DCM_PlanarConfiguration, 0);
  RequireGood(data.putAndInsertString(DCM_PhotometricInterpretation, frame.photometric), "no frame");
  RequireGood(data.putAndInsertString(DCM_NumberOfFrames, "1"), "no frame");
  auto sequence = std::make_unique<DcmPixelSequence>(DcmTag(DCM_PixelSequenceTag));
  RequireGood(sequence->insert(new DcmPixelItem(DcmTag(DCM_PixelItemTag))), "no frame");
  auto item = std::make_unique<DcmPixelItem>(DcmTag(DCM_PixelItemTag));
  if (bytes.size() % 2 != 0) bytes.push_back(0);
  RequireGood(item->putUint8Array(bytes.data(), bytes.size()), "no frame");
  RequireGood(sequence->insert(item.release()), "no frame");
  auto element = std::make_unique<DcmPixelData>(DcmTag(DCM_PixelData));
  DcmPixelData* const stored = element.get();
  stored->putOriginalRepresentation(syntax, nullptr, sequence.release());
  RequireGood(data.insert(element.release()), "no frame");
  OFString colour;
  Uint32 fragment = 0;
  RequireGood(
      stored->getUncompressedFrame(&data, 0, fragment, pixels.data(), static_cast<Uint32>(pixels.size()), colour),
      "the frame is damaged, or of a kind that it does not decode");
  const size_t length = std::min(colour.size(), sizeof frame.photometric - 1);
  std::memcpy(frame.photometric, colour.data(), length);
  frame.photometric[length] = '\0';
}

}  // namespace qkv::dicom
