// DICOM images through DCMTK (a module) and libopenjp2: one frame, as a display shows it.
#include "qkv/core/error.h"
#include "qkv/image/codec.h"
#include "qkv/image/dicom_file.h"
#include "qkv/image/dicom_grey.h"

namespace qkv::image {
namespace {

constexpr std::string_view kWholeSlide = "1.2.840.10008.5.1.4.1.1.77.1.6";
constexpr DicomStep kClass{0x0008, 0x0016, 0}, kAspectRatio{0x0028, 0x0034, 0}, kSpacing{0x0028, 0x0030, 0};

void Remark(const Source& source, std::string_view remark) {
  if (source.options.remark) source.options.remark(remark);
}

void RemarkLevels(const Source& source, DicomLevels levels) {
  switch (levels) {
    case DicomLevels::kWindow:
      return Remark(source, "DICOM: grey levels through the window in the file");
    case DicomLevels::kTable:
      return Remark(source, "DICOM: grey levels through the table in the file (VOI LUT)");
    case DicomLevels::kRange:
      return Remark(source,
                    "DICOM: no window in the file: grey levels from the least to the greatest value of each picture "
                    "(--window LOW,HIGH or a name such as lung for the same of all)");
    case DicomLevels::kGiven:
    case DicomLevels::kStored:
      return;
  }
}

void RemarkLayout(const Source& source, const DicomFile& file, const DicomLayout& layout) {
  if (layout.frames > 1 && source.options.frame == 0) {
    Remark(source, file.Text(kClass) == kWholeSlide
                       ? "DICOM: a whole slide: one tile of it is read; `qkv slide` reads all"
                       : "DICOM: several frames: the first is read (`qkv embed --series` reads all)");
  }
  for (const DicomStep element : {kAspectRatio, kSpacing}) {
    const std::vector<double> sides = file.Numbers(element);
    if (sides.size() != 2 || sides[0] == sides[1]) continue;
    return Remark(source, "DICOM: pixels that are not square, read as if they were");
  }
}

}  // namespace

Decoded DecodeDicom(const Source& source) {
  const DicomFile file(source.bytes, source.where);
  const DicomLayout layout = ReadDicomLayout(file);
  const int channels = layout.grey() ? 1 : 3;
  Admit(source, layout.columns, layout.rows, channels, DicomFrameBytes(file, layout));
  const int64_t frame = source.options.frame;
  DicomSamples samples;
  ReadDicomFrame(file, layout, frame, samples);
  Decoded decoded{.image = NewImage(source, layout.columns, layout.rows, channels)};
  if (layout.grey()) {
    DicomGrey grey(file, layout, frame, source.options.window);
    grey.Show(samples, decoded.image.pixels.data());
    RemarkLevels(source, grey.levels());
    decoded.windowed = true;
  } else {
    DicomToRgb(file, layout, samples, decoded.image.pixels.data());
  }
  RemarkLayout(source, file, layout);
  return decoded;
}

}  // namespace qkv::image
