// WebP through libwebp: the first frame on its canvas, as Pillow shows still images and animations.
//
// Not libwebp's animation decoder: it holds two more canvases, and cannot be given up.
#include <webp/decode.h>
#include <webp/demux.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "qkv/core/work.h"
#include "qkv/image/codec.h"

namespace qkv::image {
namespace {

// Piece decoded between two checks for cancellation: bytes of the file, and as many pixels as they hold on average.
// Some 20 ms. Shorter pieces cost time, since lossless rows that end in one are decoded again.
constexpr int64_t kPieceBytes = int64_t{1} << 18, kPiecePixels = int64_t{1} << 21;

/// The first chunk of this name; empty if there is none.
std::span<const std::byte> Chunk(const WebPDemuxer* demuxer, const char* name) {
  WebPChunkIterator chunk;
  std::span<const std::byte> bytes;
  // The bytes are part of the file and outlive the iterator.
  if (WebPDemuxGetChunk(demuxer, name, 1, &chunk))
    bytes = std::as_bytes(std::span(chunk.chunk.bytes, chunk.chunk.size));
  WebPDemuxReleaseChunkIterator(&chunk);
  return bytes;
}

/// A frame of the file.
struct Frame {
  WebPIterator it{};
  ~Frame() { WebPDemuxReleaseIterator(&it); }
};

/// The most bytes that libwebp holds for a frame: lossless pictures as 32-bit words with some rows of a cache, and the
/// transparency of lossy ones, which is decoded as they are; lossy pictures a row of macroblocks.
int64_t LibraryBytes(int64_t width, int64_t height) { return 4 * width * height + 32 * 4 * (width + 64); }

/// Decodes a frame into `out`, whose rows are `stride` bytes long.
VP8StatusCode DecodeFrame(const WebPIterator& frame, WEBP_CSP_MODE mode, uint8_t* out, int stride, size_t out_bytes) {
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) return VP8_STATUS_INVALID_PARAM;
  config.output.colorspace = mode;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {out, stride, out_bytes};
  const std::unique_ptr<WebPIDecoder, void (*)(WebPIDecoder*)> decoder(WebPIDecode(nullptr, 0, &config), WebPIDelete);
  if (decoder == nullptr) return VP8_STATUS_OUT_OF_MEMORY;
  const auto size = static_cast<int64_t>(frame.fragment.size);
  const int64_t pixels = int64_t{frame.width} * frame.height;
  const int64_t piece = std::clamp<int64_t>(size * kPiecePixels / pixels, 1, kPieceBytes);
  for (int64_t end = std::min(piece, size);; end = std::min(end + piece, size)) {
    CheckCancelled();
    const VP8StatusCode status = WebPIUpdate(decoder.get(), frame.fragment.bytes, static_cast<size_t>(end));
    if (status != VP8_STATUS_SUSPENDED || end == size) return status;
  }
}

}  // namespace

Decoded DecodeWebp(const Source& source) {
  const WebPData data = {source.data(), source.size()};
  const std::unique_ptr<WebPDemuxer, void (*)(WebPDemuxer*)> demuxer(WebPDemux(&data), WebPDemuxDelete);
  Require(demuxer != nullptr, "{}: WebP: the file is damaged or ends too early", source.where);
  const int64_t width = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_WIDTH);
  const int64_t height = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_HEIGHT);
  const bool alpha = (WebPDemuxGetI(demuxer.get(), WEBP_FF_FORMAT_FLAGS) & ALPHA_FLAG) != 0;
  const int channels = alpha ? 4 : 3;
  Frame frame;
  const auto check = [&](bool ok) { Require(ok, "{}: WebP: the picture is damaged", source.where); };
  CheckSize(source, width, height);
  check(WebPDemuxGetFrame(demuxer.get(), 1, &frame.it) != 0);
  const int64_t left = frame.it.x_offset, top = frame.it.y_offset;
  check(frame.it.width > 0 && frame.it.height > 0 && left + frame.it.width <= width && top + frame.it.height <= height);
  Admit(source, width, height, channels, LibraryBytes(frame.it.width, frame.it.height));

  Decoded decoded;
  decoded.image = NewImage(source, width, height, channels);
  decoded.orientation = Orientation(Chunk(demuxer.get(), "EXIF"), Chunk(demuxer.get(), "XMP "));
  const int64_t stride = width * channels, first = top * stride + left * channels;
  const int64_t bytes = (frame.it.height - 1) * stride + frame.it.width * channels;
  check(DecodeFrame(frame.it, alpha ? MODE_RGBA : MODE_RGB, decoded.image.pixels.data() + first,
                    static_cast<int>(stride), static_cast<size_t>(bytes)) == VP8_STATUS_OK);
  return decoded;
}

}  // namespace qkv::image
