// JPEG through libjpeg-turbo, with Pillow's settings: the exact integer DCT and smooth upsampling.
//
// The library reports errors through a callback that must not return: it jumps (longjmp) into the three functions below
// that call the library. These hold no objects with destructors; JpegReader owns everything that must be freed.
#include <setjmp.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "qkv/image/codec.h"

// clang-format off: jpeglib.h needs <cstdio> before it, jerror.h needs jpeglib.h
#include <jerror.h>
#include <jpeglib.h>
// clang-format on

namespace qkv::image {
namespace {

// A progressive file may repeat scans endlessly, each as expensive as the image; real encoders write about ten.
constexpr int kMaxScans = 200;

struct JpegReader {
  jpeg_error_mgr errors;  // first member: a pointer to it is a pointer to the reader
  jpeg_progress_mgr progress;
  jpeg_decompress_struct info;
  jmp_buf escape;
  Interrupt interrupt;
  char message[JMSG_LENGTH_MAX];

  JpegReader();
  ~JpegReader() { jpeg_destroy_decompress(&info); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;
};

[[noreturn]] void OnError(j_common_ptr info) {
  auto* reader = reinterpret_cast<JpegReader*>(info->err);
  info->err->format_message(info, reader->message);
  longjmp(reader->escape, 1);
}

/// Ignores libjpeg's warnings that lose no image data. The others (truncated data, invalid codes, lost restart markers)
/// are errors here, since libjpeg would fill the rest with grey.
void OnMessage(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_ADOBE_XFORM:
    case JWRN_BOGUS_PROGRESSION:
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_JFIF_MAJOR:
    case JWRN_NOT_SEQUENTIAL:
    case JWRN_TOO_MUCH_DATA:
      ++info->err->num_warnings;
      break;
    default:
      OnError(info);
  }
}

/// Called for each row of the picture, and in a file of several scans for each row of blocks.
void OnProgress(j_common_ptr info) {
  const auto* picture = reinterpret_cast<j_decompress_ptr>(info);
  auto* reader = reinterpret_cast<JpegReader*>(info->err);
  const bool wanted = reader->interrupt.Spend(int64_t{picture->image_width} * picture->num_components);
  if (wanted && picture->input_scan_number <= kMaxScans) return;
  snprintf(reader->message, sizeof reader->message, "more than %d scans", kMaxScans);
  longjmp(reader->escape, 1);
}

JpegReader::JpegReader() : progress{}, info{}, message{} {
  info.err = jpeg_std_error(&errors);
  errors.error_exit = OnError;
  errors.emit_message = OnMessage;
  errors.output_message = [](j_common_ptr) {};
  progress.progress_monitor = OnProgress;
}

bool ReadHeader(JpegReader& reader, const uint8_t* data, size_t size) {
  if (setjmp(reader.escape) != 0) return false;
  jpeg_decompress_struct& info = reader.info;
  jpeg_create_decompress(&info);
  info.progress = &reader.progress;
  jpeg_mem_src(&info, data, size);
  jpeg_save_markers(&info, JPEG_APP0 + 1, 0xFFFF);  // EXIF and XMP
  jpeg_read_header(&info, TRUE);
  return true;
}

bool Start(JpegReader& reader) {
  if (setjmp(reader.escape) != 0) return false;
  jpeg_start_decompress(&reader.info);
  return true;
}

/// Reads all rows into `out` [height, width, components], or if `cmyk` (a buffer of one row) is given, converts them to
/// RGB.
bool ReadRows(JpegReader& reader, uint8_t* out, uint8_t* cmyk) {
  if (setjmp(reader.escape) != 0) return false;
  jpeg_decompress_struct& info = reader.info;
  const size_t stride = size_t{info.output_width} * (cmyk ? 3 : static_cast<size_t>(info.output_components));
  while (info.output_scanline < info.output_height) {
    uint8_t* out_y = out + info.output_scanline * stride;
    JSAMPROW row = cmyk ? cmyk : out_y;
    jpeg_read_scanlines(&info, &row, 1);
    if (cmyk) {
      for (size_t x = 0; x < info.output_width; ++x) {
        // Pillow treats every CMYK file as Adobe's, which stores inverted ink.
        for (int c = 0; c < 4; ++c) cmyk[4 * x + c] = static_cast<uint8_t>(255 - cmyk[4 * x + c]);
        CmykToRgb(cmyk + 4 * x, out_y + 3 * x);
      }
    }
  }
  jpeg_finish_decompress(&info);
  return true;
}

/// EXIF may be split over several markers; they are joined as in Pillow.
int ReadOrientation(const jpeg_decompress_struct& info, std::string& exif) {
  using namespace std::string_view_literals;
  constexpr auto kExif = "Exif\0\0"sv, kXmp = "http://ns.adobe.com/xap/1.0/\0"sv;
  exif.clear();
  std::string_view xmp;
  for (const jpeg_marker_struct* marker = info.marker_list; marker != nullptr; marker = marker->next) {
    const std::string_view data(reinterpret_cast<const char*>(marker->data), marker->data_length);
    if (data.starts_with(kExif)) exif += data.substr(kExif.size());
    if (data.starts_with(kXmp)) xmp = data.substr(kXmp.size());
  }
  return Orientation(std::as_bytes(std::span(exif)), std::as_bytes(std::span(xmp)));
}

/// The most bytes that libjpeg holds beside the picture. With several scans: the coefficients of all blocks, 16 bits
/// each. Always: some rows of blocks with their neighbours, and the same after upsampling.
int64_t LibraryBytes(jpeg_decompress_struct& info) {
  const int64_t mcu_width = int64_t{info.max_h_samp_factor} * DCTSIZE, mcu_height = info.max_v_samp_factor * DCTSIZE;
  const int64_t across = (info.image_width + mcu_width - 1) / mcu_width;
  const int64_t down = (info.image_height + mcu_height - 1) / mcu_height;
  int64_t samples = 0;  // of a row of MCUs
  for (int i = 0; i < info.num_components; ++i)
    samples += across * info.comp_info[i].h_samp_factor * info.comp_info[i].v_samp_factor * DCTSIZE2;
  const int64_t upsampled = across * mcu_width * info.max_v_samp_factor * info.num_components;
  return (jpeg_has_multiple_scans(&info) ? down * samples * 2 : 0) + 3 * samples + 2 * upsampled;
}

}  // namespace

Decoded DecodeJpeg(const Source& source) {
  JpegReader reader;
  const auto check = [&](bool ok) {
    reader.interrupt.Rethrow();
    Require(ok, "{}: JPEG: {}", source.where, reader.message);
  };
  check(ReadHeader(reader, source.data(), source.size()));
  jpeg_decompress_struct& info = reader.info;
  CheckSize(source, info.image_width, info.image_height);
  switch (info.num_components) {
    case 1:
      info.out_color_space = JCS_GRAYSCALE;
      break;
    case 3:
      info.out_color_space = JCS_RGB;
      break;
    case 4:
      info.out_color_space = JCS_CMYK;
      break;
    default:
      Fail("{}: JPEG: {} colour components, expected 1, 3 or 4", source.where, info.num_components);
  }
  const bool is_cmyk = info.num_components == 4;
  Decoded decoded;
  decoded.orientation = ReadOrientation(info, source.workspace.exif);
  const int channels = is_cmyk ? 3 : info.num_components;
  const int64_t ink_bytes = is_cmyk ? int64_t{4} * info.image_width : 0;
  Admit(source, info.image_width, info.image_height, channels, LibraryBytes(info) + ink_bytes);
  decoded.image = NewImage(source, info.image_width, info.image_height, channels);
  check(Start(reader));
  std::vector<uint8_t>& cmyk = source.workspace.row;
  cmyk.resize(static_cast<size_t>(ink_bytes));
  check(ReadRows(reader, decoded.image.pixels.data(), is_cmyk ? cmyk.data() : nullptr));
  return decoded;
}

}  // namespace qkv::image
