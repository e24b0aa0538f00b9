// The image operations of RandAugment and colour jitter, byte-identical to Pillow's. In place, for images of 1 or 3
// channels. Internal to qkv/train.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "qkv/image/image.h"

namespace qkv::train {

void FlipHorizontally(image::Image& image);

// Tables of levels
/// Stretches each channel's levels to 0 … 255 (ImageOps.autocontrast).
void AutoContrast(image::Image& image);
/// Spreads each channel's levels evenly (ImageOps.equalize).
void Equalize(image::Image& image);
void Invert(image::Image& image);
/// Keeps the highest `bits` bits of each level, 0 … 8.
void Posterize(image::Image& image, int bits);
/// Inverts levels at or above `threshold`, 0 … 256.
void Solarize(image::Image& image, int threshold);
/// Adds `add` to levels below 128, clamped to 255.
void SolarizeAdd(image::Image& image, int add);

// Interpolation between the image and a degraded version (ImageEnhance): factor 0 gives the degraded version, 1 the
// image, more than 1 extrapolates.
void Brightness(image::Image& image, float factor);                      // black
void Contrast(image::Image& image, float factor);                        // its mean grey
void Saturation(image::Image& image, float factor);                      // grey; one channel stays as it is
void Sharpness(image::Image& image, float factor, image::Image& spare);  // smoothed

/// Rotates the hue by `shift` of 256 steps (torchvision's adjust_hue); one channel stays as it is.
void ShiftHue(image::Image& image, uint8_t shift);

/// Affine transform (Image.transform): pixel (x, y) of the result samples the image at (m[0] x + m[1] y + m[2], m[3] x
/// + m[4] y + m[5]), bilinear, pixel centres at ½. Outside it takes `fill`, one value per channel, or black if empty.
void Affine(image::Image& image, const std::array<double, 6>& m, std::span<const uint8_t> fill, image::Image& spare);
/// The matrix of a counterclockwise rotation around the centre (Image.rotate).
std::array<double, 6> Rotation(double degrees, int64_t height, int64_t width);

}  // namespace qkv::train
