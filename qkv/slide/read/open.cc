#include <array>

#include "qkv/slide/read/readers.h"

namespace qkv::slide {

std::unique_ptr<Slide> OpenSlide(const std::filesystem::path& path, const SlideOptions& options) {
  Require(std::filesystem::exists(path), "slide: {}: no such file", path.string());
  std::string reasons;
  for (const auto open : {OpenTiff, OpenByOpenSlide, OpenDicom}) {
    std::string why;
    if (std::unique_ptr<Slide> slide = open(path, options, why)) return slide;
    reasons += (reasons.empty() ? "" : "; ") + why;
  }
  Fail("slide: {}: no reader takes it: {}", path.string(), reasons);
}

}  // namespace qkv::slide
