// An image in memory, and decoding from files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "qkv/core/tensor.h"

namespace qkv::image {

/// Eight-bit samples, rows from the top, channels interleaved: 1 grey, 2 grey and alpha, 3 RGB, 4 RGB and alpha.
struct Image {
  Tensor<uint8_t> pixels;  // [height, width, channels]

  int64_t height() const { return pixels.dim(0); }    // in pixels
  int64_t width() const { return pixels.dim(1); }     // in pixels
  int64_t channels() const { return pixels.dim(2); }  // 1 to 4
};

struct Workspace;  // qkv/image/workspace.h

/// Options of decoding.
struct DecodeOptions {
  bool exif_orientation = true;  // apply the EXIF orientation (HEIC and AVIF have their own, always applied)
  // Larger images are rejected before decoding. The default is Pillow's limit against decompression bombs, twice its
  // warning threshold (89,478,485).
  int64_t max_pixels = 178'956'970;
  // Grey levels (up to 16 bits) that map to 0 and 255, linearly between. Without it, 16 bits are treated as in Pillow:
  // 16-bit grey saturates at 255 on conversion, 16-bit RGB keeps the high byte.
  // In DICOM, levels after the file's rescaling, such as Hounsfield units; without it the file's own window.
  std::optional<std::pair<double, double>> window = {};
  int frame = 0;  // of a DICOM file
  // Called with the most bytes that decoding will hold at a time, the image's own among them (not the file's), before
  // they are allocated; again with a larger number if more are needed. May block or throw.
  std::function<void(int64_t bytes)> admit = {};
  // Receives what a reader chose where a file leaves a choice, such as the window of a DICOM image or one picture of a
  // slide: one of few texts, numbers aside, without anything of the file. Called by the thread that decodes.
  std::function<void(std::string_view text)> remark = {};
};

/// Decodes JPEG, PNG, WebP, GIF (first frame), BMP, TIFF, HEIC, AVIF, JPEG 2000, DICOM (dicom_grey.h), and PPM/PGM/PBM,
/// detected by their first bytes. Palettes are expanded; CMYK becomes RGB as by Pillow's convert("RGB"). Throws Error,
/// prefixed with `where`, for unknown, truncated or oversized files, and for those whose decoding takes more than
/// MemoryLimit(). Can be given up (core/work.h), and so can all functions below that go over an image.
Image Decode(std::span<const std::byte> bytes, const DecodeOptions& options, std::string_view where);
/// The same for a file. Throws Error also if it cannot be read.
Image DecodeFile(const std::filesystem::path& path, const DecodeOptions& options = {});
/// The same into `image`, whose memory is reused.
void Decode(std::span<const std::byte> bytes, const DecodeOptions& options, std::string_view where,
            Workspace& workspace, Image& image);
/// The same for a file into `image`, whose memory is reused.
void DecodeFile(const std::filesystem::path& path, const DecodeOptions& options, Workspace& workspace, Image& image);

/// True for extensions of files that DecodeFile reads (any case).
bool HasImageEnding(const std::filesystem::path& path);

/// Converts to 1 (grey) or 3 (RGB) channels as Pillow's convert("L") and convert("RGB") do; alpha is dropped.
Image ToChannels(const Image& image, int channels);
/// The same into `converted`, whose memory is reused.
void ToChannels(const Image& image, int channels, Image& converted);
/// The same in the image's own memory. It has more channels.
void DropChannels(Image& image, int channels);

}  // namespace qkv::image
