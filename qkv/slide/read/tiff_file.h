// A TIFF file through libtiff: its directories, and handles for threads that decode side by side. Internal to
// slide/read/.
#pragma once

#include <tiffio.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "qkv/core/file.h"
#include "qkv/core/work.h"

namespace qkv::slide {

/// One directory: a picture and what is said of it.
struct TiffPage {
  uint64_t offset = 0;  // of the directory in the file
  uint32_t width = 0, height = 0;
  bool tiled = false;
  uint32_t piece_width = 0, piece_height = 0;  // of a tile, or of a strip; the last strip may be lower
  uint16_t bits = 1, samples = 1, sample_format = SAMPLEFORMAT_UINT, photometric = PHOTOMETRIC_MINISWHITE;
  uint16_t compression = COMPRESSION_NONE;
  uint16_t alpha = EXTRASAMPLE_UNSPECIFIED;  // kind of the first sample behind the colours
  bool planar = false;                       // a plane for each sample
  uint32_t depth = 1;                        // of a volume
  uint32_t subfile_type = 0;
  std::string description, software;
  std::optional<double> resolution_x, resolution_y;  // pixels a unit
  uint16_t resolution_unit = RESUNIT_INCH;
  std::vector<uint64_t> sub_directories;
  bool has_ndpi_tag = false;  // Hamamatsu's
  bool has_iscan = false;     // Ventana's XMP

  int64_t across() const { return (int64_t{width} + piece_width - 1) / piece_width; }   // pieces
  int64_t down() const { return (int64_t{height} + piece_height - 1) / piece_height; }  // pieces
  int64_t pieces() const { return across() * down(); }                                  // of one plane
  int64_t planes() const { return planar ? samples : 1; }
};

/// Where libtiff reads: each handle at its own position of one open file.
struct TiffInput {
  int descriptor = -1;
  uint64_t size = 0, position = 0;
  std::string message;  // the first error
};

/// A handle of libtiff, at one directory. One thread uses it at a time.
class TiffHandle {
 public:
  /// Reads nothing but the header. most: bytes of each buffer of libtiff.
  TiffHandle(int descriptor, uint64_t size, int64_t most);

  TIFF* get() const { return tiff_.get(); }
  bool is_open() const { return tiff_ != nullptr; }
  /// The first error since the last call; "damaged" if libtiff did not say.
  std::string TakeMessage();
  bool has_message() const { return !input_.message.empty(); }

 private:
  TiffInput input_;
  std::unique_ptr<TIFF, void (*)(TIFF*)> tiff_;
};

class TiffFile {
 public:
  /// Whether the file begins as a TIFF does and is no DICOM file in disguise.
  static bool IsTiff(const InputFile& file);

  /// Throws Error for what is not a readable TIFF. Keeps `path`.
  explicit TiffFile(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const InputFile& file() const { return file_; }
  /// All directories in their order, without the sub-directories. Throws Error if one is damaged.
  std::vector<TiffPage> ReadPages() const;
  /// The sub-directories of a page. Throws Error likewise.
  std::vector<TiffPage> ReadSubPages(const TiffPage& page) const;

  /// A handle at the page's directory, with room for its pieces: one that lies ready, or a new one. Throws Error.
  std::unique_ptr<TiffHandle> Borrow(const TiffPage& page) const;
  /// Gives a handle that met no error back.
  void Return(const TiffPage& page, std::unique_ptr<TiffHandle> handle) const;

 private:
  int64_t TableBytes() const;

  const std::filesystem::path path_;
  InputFile file_;
  mutable std::mutex mutex_;
  mutable std::map<uint64_t, std::vector<std::unique_ptr<TiffHandle>>> ready_;  // by the offset of the directory
};

}  // namespace qkv::slide
