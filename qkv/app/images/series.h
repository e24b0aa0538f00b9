// Scans of several slices: DICOM files of one series, in their order in space.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "qkv/app/images/image_list.h"
#include "qkv/io/json.h"

namespace qkv::app {

struct Slice {
  std::filesystem::path file;
  int frame = 0;
  size_t series = 0;  // index into SeriesList::names
};

/// Slices of one series after the other.
struct SeriesList {
  ImageList images;                // their names are FILE, or FILE#FRAME where a file has several; reads the frames
  std::vector<Slice> slices;       // as images.files
  std::vector<std::string> names;  // of series: the folder, or "FOLDER (series 2)" where it has several
};

/// The DICOM files of a list as series: those of one folder with one SeriesInstanceUID, ordered by ImagePositionPatient
/// along the normal of ImageOrientationPatient, or by InstanceNumber where a file lacks these. Frames of a file are in
/// their order. `note` receives which files are none or cannot be read; images.failed counts them. Throws Error if none
/// is left.
SeriesList FindSeries(const ImageList& files, const Note& note);

/// Elements of DICOM headers that a user asks for by --keep-header.
class KeptHeader {
 public:
  KeptHeader() = default;
  /// Keywords ("Modality") or "(0008,0060)". Throws Error for unknown ones, and without DCMTK.
  explicit KeptHeader(const std::vector<std::string>& names);

  bool empty() const { return fields_.empty(); }
  /// {NAME: value}: text, null without the element. Null for a file that is no DICOM.
  io::Json Read(const std::filesystem::path& file) const;

 private:
  struct Field {
    std::string name;
    uint16_t group, element;
  };
  std::vector<Field> fields_;
};

}  // namespace qkv::app
