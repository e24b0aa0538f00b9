// Formats that the engine of the web page leaves to the browser, which gives it pixels.
#include "qkv/core/error.h"
#include "qkv/image/codec.h"

namespace qkv::image {
namespace {

[[noreturn]] Decoded Refuse(const Source& source, std::string_view format) {
  Fail("{}: {}: this build of qkv reads PNG, BMP and PPM only; the page must decode it and send pixels", source.where,
       format);
}

}  // namespace

Decoded DecodeJpeg(const Source& source) { Refuse(source, "JPEG"); }
Decoded DecodeWebp(const Source& source) { Refuse(source, "WebP"); }
Decoded DecodeGif(const Source& source) { Refuse(source, "GIF"); }
Decoded DecodeTiff(const Source& source) { Refuse(source, "TIFF"); }
Decoded DecodeHeif(const Source& source) { Refuse(source, "HEIC or AVIF"); }
Decoded DecodeDicom(const Source& source) { Refuse(source, "DICOM"); }
Decoded DecodeJp2(const Source& source) { Refuse(source, "JPEG 2000"); }

}  // namespace qkv::image
