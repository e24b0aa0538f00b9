// A slide: one picture of up to hundreds of gigapixels at several resolutions, of which only what is asked for is read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/image/image.h"

namespace qkv::slide {

/// The slide at one resolution.
struct Level {
  int64_t width = 0, height = 0;  // in its own pixels
  double downsample = 1;          // of level 0: the mean of both sides' ratios, as OpenSlide's
};

/// What is known of a slide without reading a pixel.
struct SlideFacts {
  std::string format;                   // "Aperio", "OME-TIFF", "TIFF", "DICOM", …
  std::string reader;                   // "libtiff", "OpenSlide 4.0.1", "DCMTK"
  std::vector<Level> levels;            // [0] is the finest; downsamples grow
  std::optional<double> mpp_x, mpp_y;   // microns a pixel of level 0
  std::optional<double> magnification;  // objective power of level 0
  // Names of pictures beside the levels, such as "label" and "macro". They show names of patients, and are read only by
  // ReadAssociated.
  std::vector<std::string> associated;
};

/// Pixels of one level, in that level's own coordinates.
struct Region {
  int64_t x = 0, y = 0, width = 0, height = 0;
};

/// A part of a slide cannot be read; others can. what() names the slide, the level and the place.
class DamagedRegion : public Error {
 public:
  using Error::Error;
};

class Slide {
 public:
  virtual ~Slide() = default;

  const SlideFacts& facts() const { return facts_; }

  /// Writes [region.height, region.width, 3], RGB, into `pixels`, whose memory is reused. What is outside the level, or
  /// was never scanned, is white. Threads may call this at a time. Throws DamagedRegion for pixels that cannot be
  /// decoded, and Error for a level that is not there or a region above MemoryLimit().
  virtual void Read(int level, const Region& region, image::Image& pixels) const = 0;

  /// A picture of facts().associated, RGB. Throws Error if there is none of this name, or it cannot be decoded.
  virtual image::Image ReadAssociated(const std::string& name) const = 0;

 protected:
  SlideFacts facts_;  // set by the constructor
};

struct SlideOptions {
  std::filesystem::path openslide;  // its library; empty: looked for (openslide_slide.h)
  // Of slides that do not say; the slide's own are used where it says them.
  std::optional<double> mpp;
};

/// Opens a slide by its content: TIFF by libtiff, whatever else OpenSlide reads in a process of its own, DICOM that
/// OpenSlide refuses by DCMTK. Throws Error, which says what could not read it and why, and what to install.
std::unique_ptr<Slide> OpenSlide(const std::filesystem::path& path, const SlideOptions& options = {});

/// The whole slide, RGB, with a longer side of at most `side` pixels: the next finer level reduced by boxes, in bands
/// of bounded memory. White where a part is damaged; `damaged`, if any, receives what() of each.
image::Image ReadOverview(const Slide& slide, int64_t side,
                          const std::function<void(const std::string&)>& damaged = {});

}  // namespace qkv::slide
