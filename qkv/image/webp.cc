// WebP through libwebp's animation decoder, which Pillow uses for still images too; the first frame only.
#include <webp/decode.h>
#include <webp/demux.h>

#include <cstring>
#include <memory>

#include "qkv/image/codec.h"

namespace qkv::image {
namespace {

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

}  // namespace

Decoded DecodeWebp(const Source& source) {
  const WebPData data = {source.data(), source.size()};
  // Sizes are checked before any frame is decoded.
  const std::unique_ptr<WebPDemuxer, void (*)(WebPDemuxer*)> demuxer(WebPDemux(&data), WebPDemuxDelete);
  Require(demuxer != nullptr, "{}: WebP: the file is damaged or ends too early", source.where);
  const int64_t width = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_WIDTH);
  const int64_t height = WebPDemuxGetI(demuxer.get(), WEBP_FF_CANVAS_HEIGHT);
  const bool alpha = (WebPDemuxGetI(demuxer.get(), WEBP_FF_FORMAT_FLAGS) & ALPHA_FLAG) != 0;
  Decoded decoded;
  decoded.image = NewImage(source, width, height, alpha ? 4 : 3);
  decoded.orientation = Orientation(Chunk(demuxer.get(), "EXIF"), Chunk(demuxer.get(), "XMP "));

  WebPAnimDecoderOptions options;
  Require(WebPAnimDecoderOptionsInit(&options) != 0, "{}: WebP: another version of libwebp", source.where);
  const std::unique_ptr<WebPAnimDecoder, void (*)(WebPAnimDecoder*)> decoder(WebPAnimDecoderNew(&data, &options),
                                                                             WebPAnimDecoderDelete);
  uint8_t* rgba = nullptr;  // owned by the decoder
  int timestamp = 0;
  Require(decoder != nullptr && WebPAnimDecoderGetNext(decoder.get(), &rgba, &timestamp) != 0,
          "{}: WebP: the picture is damaged", source.where);
  uint8_t* out = decoded.image.pixels.data();
  if (alpha) {
    std::memcpy(out, rgba, static_cast<size_t>(decoded.image.pixels.size()));
  } else {
    for (int64_t i = 0; i < width * height; ++i) std::memcpy(out + 3 * i, rgba + 4 * i, 3);
  }
  return decoded;
}

}  // namespace qkv::image
