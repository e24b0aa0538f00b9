// A DICOM file: its elements, and the stored samples of its frames. The module qkv_dicom.so reads it (dicom_module.h).
// No message of an Error holds anything of the header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/core/tensor.h"
#include "qkv/image/dicom_module.h"

namespace qkv::image {

using DicomStep = QkvDicomStep;
/// The last step is the element, those before are sequences it is in.
using DicomPath = std::span<const DicomStep>;

/// The element of a keyword ("Modality") or of "(0008,0060)"; nothing if there is none of this name. Throws Error,
/// prefixed with `where`, if the module cannot be loaded.
std::optional<DicomStep> FindDicomElement(const std::string& name, std::string_view where);

class DicomFile {
 public:
  /// Both must outlive this. Throws Error, prefixed with `where`, for a damaged file, one whose header takes more than
  /// MemoryLimit(), and if the module cannot be loaded.
  DicomFile(std::span<const std::byte> bytes, std::string_view where);

  const QkvDicomFacts& facts() const { return facts_; }
  std::string_view where() const { return where_; }

  /// All values; empty without the element.
  std::vector<double> Numbers(DicomPath path) const;
  std::vector<double> Numbers(DicomStep element) const { return Numbers(DicomPath(&element, 1)); }
  /// The first value.
  std::optional<double> Number(DicomPath path) const;
  std::optional<double> Number(DicomStep element) const { return Number(DicomPath(&element, 1)); }
  /// As UTF-8, without padding; empty without the element. Untrusted, and may name a patient.
  std::string Text(DicomPath path) const;
  std::string Text(DicomStep element) const { return Text(DicomPath(&element, 1)); }
  /// Items of a sequence.
  int64_t Items(DicomPath path) const;
  int64_t Items(DicomStep element) const { return Items(DicomPath(&element, 1)); }

  /// Where an element of a frame is: in the sequence `group` of the frame's functional group, of that of all frames, or
  /// in the data set. Empty without it.
  std::vector<DicomStep> OfFrame(int64_t frame, DicomStep group, DicomStep element) const;

  const QkvDicomFile* handle() const { return file_.get(); }
  const QkvDicomModule& module() const { return *module_; }

 private:
  struct Close {
    const QkvDicomModule* module;
    void operator()(QkvDicomFile* file) const { module->close(file); }
  };

  const QkvDicomModule* module_;
  std::string_view where_;
  std::unique_ptr<QkvDicomFile, Close> file_;
  QkvDicomFacts facts_{};
};

/// What the header says of the frames.
struct DicomLayout {
  int64_t rows = 0, columns = 0, frames = 1;
  int samples = 1;            // a pixel: 1 or 3
  int allocated = 0;          // bits of a sample in the file: 1, 8, 16 or 32
  int stored = 0, shift = 0;  // of these, `stored` bits above the lowest `shift`
  bool is_signed = false;
  bool planar = false;      // native samples are stored one colour after the other
  std::string photometric;  // "MONOCHROME2", "RGB", …: one that is known

  bool grey() const { return photometric.starts_with("MONOCHROME"); }
};

/// The description of a palette or a table of grey levels.
struct DicomTableShape {
  int64_t count = 0, first = 0;  // entries, 1 to 65,536; the input of the first
  int bits = 16;                 // of an entry, 1 to 16
};

/// From the element's three numbers. Throws Error, prefixed with the file's where(), for others: decoders count on it.
DicomTableShape ReadDicomTableShape(const DicomFile& file, std::span<const double> numbers, bool is_signed);

/// Throws Error that says why if the file holds no frames that can be decoded: what it holds instead, or which value
/// has no meaning.
DicomLayout ReadDicomLayout(const DicomFile& file);

/// Bytes that ReadDicomFrame takes with the result, at most.
int64_t DicomFrameBytes(const DicomFile& file, const DicomLayout& layout);

struct DicomSamples {
  Tensor<int32_t> values;     // [rows, columns, samples]; unsigned ones of 32 bits as their bits
  std::string photometric;    // that of the decoded samples: JPEG's YBR is RGB here
  int bits = 0;               // of a sample
  Tensor<uint8_t> undecoded;  // scratch
};

/// Decodes a frame as stored: samples without modality or window. Throws Error, prefixed with the file's where(), for a
/// damaged frame.
void ReadDicomFrame(const DicomFile& file, const DicomLayout& layout, int64_t frame, DicomSamples& samples);

/// 8-bit RGB of a colour frame, [rows, columns, 3]: palettes are expanded, YBR converted, more bits narrowed to their
/// high byte.
void DicomToRgb(const DicomFile& file, const DicomLayout& layout, const DicomSamples& samples, uint8_t* rgb);

}  // namespace qkv::image
