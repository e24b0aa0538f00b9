// HEIC and AVIF through libheif. Rotation, mirroring and cropping are properties of these formats and always applied;
// an EXIF orientation in such a file repeats them and is not (ISO/IEC 23008-12).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "qkv/core/work.h"
#include "qkv/image/codec.h"
#include "qkv/image/heif_library.h"
#include "qkv/image/hevc_size.h"

namespace qkv::image {
namespace {

using HeifContext = std::unique_ptr<heif_context, decltype(&heif_context_free)>;
using HeifHandle = std::unique_ptr<heif_image_handle, decltype(&heif_image_handle_release)>;
using HeifOptions = std::unique_ptr<heif_decoding_options, decltype(&heif_decoding_options_free)>;
using HeifImage = std::unique_ptr<heif_image, decltype(&heif_image_release)>;

// Bytes that libheif and its decoder hold for a pixel of the coded image, of 8 bits a sample: the decoder's picture,
// libheif's copy of it, and what converting it to RGB passes through, of up to four planes each. Twice for more bits.
constexpr int64_t kLibraryBytes = 24;

// libheif decodes so many tiles of a grid at a time.
constexpr int64_t kTilesTogether = 4;

int64_t LibraryBytes(const HeifLibrary& heif, const heif_image_handle* handle, int64_t hevc_pixels) {
  const int64_t coded = int64_t{heif.image_handle_get_ispe_width(handle)} * heif.image_handle_get_ispe_height(handle);
  const int64_t shown = int64_t{heif.image_handle_get_width(handle)} * heif.image_handle_get_height(handle);
  const bool deep = heif.image_handle_get_luma_bits_per_pixel(handle) > 8;
  const int64_t declared = std::max(coded, shown);
  // A coded picture of another size is a tile, or larger than it is said to be.
  const bool has_tiles = hevc_pixels > 2 * declared || 2 * hevc_pixels < declared;
  const int64_t pixels = has_tiles ? declared + kTilesTogether * hevc_pixels : std::max(declared, hevc_pixels);
  return pixels * kLibraryBytes * (deep ? 2 : 1);
}

void CheckHeif(const heif_error& error, const Source& source) {
  Require(error.code == heif_error_Ok, "{}: HEIF: {}", source.where, error.message == nullptr ? "" : error.message);
}

}  // namespace

Decoded DecodeHeif(const Source& source) {
  const HeifLibrary& heif = LoadHeif(source.where);
  const int64_t hevc_pixels = HevcPixels(source);
  const HeifContext context(heif.context_alloc(), heif.context_free);
  Require(context != nullptr, "{}: HEIF: no memory", source.where);
  // The limit is for the coded image, which may be larger than the crop of it: a square of at least max_pixels.
  const double side = std::ceil(std::sqrt(static_cast<double>(source.options.max_pixels)));
  heif.context_set_maximum_image_size_limit(context.get(), static_cast<int>(std::min(side, 65535.0)));
  CheckHeif(heif.context_read_from_memory_without_copy(context.get(), source.data(), source.size(), nullptr), source);
  heif_image_handle* found = nullptr;
  CheckHeif(heif.context_get_primary_image_handle(context.get(), &found), source);
  const HeifHandle handle(found, heif.image_handle_release);
  const bool alpha = heif.image_handle_has_alpha_channel(handle.get()) != 0;
  const int64_t width = heif.image_handle_get_width(handle.get());
  const int64_t height = heif.image_handle_get_height(handle.get());
  const int channels = alpha ? 4 : 3;
  Admit(source, width, height, channels, LibraryBytes(heif, handle.get(), hevc_pixels));
  CheckCancelled();  // libheif cannot be interrupted
  Decoded decoded;
  decoded.image = NewImage(source, width, height, channels);

  const HeifOptions options(heif.decoding_options_alloc(), heif.decoding_options_free);
  Require(options != nullptr, "{}: HEIF: no memory", source.where);
  options->convert_hdr_to_8bit = 1;
  if (options->version >= 3) options->strict_decoding = 1;  // libheif 1.12 has a shorter struct
  heif_image* pixels = nullptr;
  CheckHeif(heif.decode_image(handle.get(), &pixels, heif_colorspace_RGB,
                              alpha ? heif_chroma_interleaved_RGBA : heif_chroma_interleaved_RGB, options.get()),
            source);
  const HeifImage image(pixels, heif.image_release);
  int stride = 0;
  const uint8_t* plane = heif.image_get_plane_readonly(image.get(), heif_channel_interleaved, &stride);
  const int64_t got_height = heif.image_get_height(image.get(), heif_channel_interleaved);
  const int64_t got_width = heif.image_get_width(image.get(), heif_channel_interleaved);
  Require(plane != nullptr && got_height == height && got_width == width,
          "{}: HEIF: the header says {} x {} pixels, the picture has {} x {}", source.where, width, height, got_width,
          got_height);
  const auto row = static_cast<size_t>(width * channels);
  for (int64_t y = 0; y < height; ++y) {
    Spend(width);
    std::memcpy(decoded.image.pixels.data() + static_cast<size_t>(y) * row, plane + y * stride, row);
  }
  return decoded;
}

}  // namespace qkv::image
