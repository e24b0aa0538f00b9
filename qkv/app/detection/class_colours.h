// A colour for each class, for boxes and masks on photos.
#pragma once

#include <cstdint>

#include "qkv/image/colour_map.h"

namespace qkv::app {

/// Colours of ClassColour before they repeat.
inline constexpr int64_t kClassColours = 256;

/// The colour of a class, the same in every picture. Each colour is as far from all earlier ones as possible, so the
/// first classes are told apart best. index: ≥ 0.
image::Colour ClassColour(int64_t index);

/// Black or white, whichever is read better on this colour: the contrast is at least 4.5 (WCAG 2.1, 1.4.3).
image::Colour TextColourOn(const image::Colour& background);

}  // namespace qkv::app
