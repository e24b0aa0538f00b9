// Any bytes as a DICOM file, through the module's own sources: header, two frames, and text of the header. DCMTK itself
// is not instrumented.
#include <array>
#include <span>

#include "qkv/core/error.h"
#include "qkv/core/memory.h"
#include "qkv/image/dicom_file.h"
#include "qkv/image/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace qkv;
  using namespace qkv::image;
  SetMemoryLimit(int64_t{1} << 28);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  for (const int frame : {0, 1}) {
    try {
      Decode(bytes, {.max_pixels = 1 << 16, .frame = frame}, "input");
    } catch (const Error&) {  // what a bad file should do
    }
  }
  try {
    const DicomFile file(bytes, "input");
    const std::array path{DicomStep{0x5200, 0x9230, 1}, DicomStep{0x0048, 0x021A, 0}, DicomStep{0x0048, 0x021E, 0}};
    file.Numbers(path);
    for (const DicomStep element : {DicomStep{0x0010, 0x0010, 0}, DicomStep{0x0008, 0x0008, 0}}) file.Text(element);
  } catch (const Error&) {
  }
  return 0;
}
