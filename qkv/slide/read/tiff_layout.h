// What the directories of a TIFF are: levels of a slide, pictures beside it. Internal to slide/read/.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "qkv/slide/read/tiff_file.h"

namespace qkv::slide {

struct TiffLayout {
  std::string format;
  std::vector<TiffPage> levels;  // from the finest; all show the same
  std::vector<std::pair<std::string, TiffPage>> associated;
  std::optional<double> mpp_x, mpp_y, magnification;
  // Aperio leaves tiles out of coarser levels where a finer one lacks one, or writes damaged ones.
  bool spreads_absence = false;
};

/// The scanner whose TIFF needs a reader of its own, such as "Hamamatsu"; empty if none is recognised.
std::string ScannerOf(const std::vector<TiffPage>& pages);

/// Aperio's layout if the first page is Aperio's, OME's if it is OME's, else a pyramid or a flat picture. Throws Error
/// for a slide that contradicts itself.
TiffLayout FindLayout(const TiffFile& file, const std::vector<TiffPage>& pages);

/// OME-TIFF (qkv/slide/read/ome.cc).
bool IsOme(const TiffPage& first);
TiffLayout OmeLayout(const TiffFile& file, const std::vector<TiffPage>& pages);

/// Adds to `levels`, which has the finest, those of `pages` that show the same at lower resolution, in order of size.
void AddCoarserLevels(const std::vector<TiffPage>& pages, std::vector<TiffPage>& levels);
/// Whether both have the same sides' ratio, but for rounding.
bool HasSameAspect(const TiffPage& a, const TiffPage& b);

}  // namespace qkv::slide
