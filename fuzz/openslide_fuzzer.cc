// Facts of a slide as a process under the slide's control could give them (qkv/slide/read/openslide_slide.h).
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "qkv/slide/read/openslide_slide.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace qkv::slide;
  openslide::Facts facts = {};
  std::memcpy(&facts, data, std::min(size, sizeof(facts)));
  if (openslide::BackgroundOf(facts) > 0xffffff) std::abort();
  try {
    const SlideFacts result = openslide::FactsOf(facts, {}, "slide");
    double before = 1;
    for (const Level& level : result.levels) {
      if (level.width < 1 || level.height < 1 || !(level.downsample >= before)) std::abort();
      before = level.downsample;
    }
    for (const auto& number : {result.mpp_x, result.mpp_y, result.magnification}) {
      if (number && !(std::isfinite(*number) && *number > 0)) std::abort();
    }
    for (const std::string& name : result.associated) {
      if (name.empty() || name.size() >= sizeof(facts.name[0])) std::abort();
    }
  } catch (const qkv::Error&) {
  }
  return 0;
}
