// Which pictures the built-in digit classifier accepts when no model was named.
#pragma once

#include <string>

#include "qkv/image/image.h"

namespace qkv::app {

/// Why a picture cannot be a digit, such as "a colour picture of 500x375 pixels without a plain background"; empty if
/// it can be one. A digit is small and grey (112 pixels at most on each side, four times what the classifier reads), or
/// drawn on a plain background: 70 % of the pixels or more are near the median colour, which is pale or grey and not
/// sky blue. Looks at 65,536 pixels at most.
std::string WhyNoDigit(const image::Image& image);

}  // namespace qkv::app
