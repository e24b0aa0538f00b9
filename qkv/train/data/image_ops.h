// The operations of RandAugment and of colour jitter, to the byte as Pillow does them. In place; images of 1 or 3
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
/// Keeps the `bits` highest bits of each level, 0 … 8.
void Posterize(image::Image& image, int bits);
/// Inverts the levels from `threshold` on, 0 … 256.
void Solarize(image::Image& image, int threshold);
/// Adds to the levels below 128, up to 255.
void SolarizeAdd(image::Image& image, int add);

// Between the image and a poorer one (ImageEnhance): 0 is the poorer one, 1 the image, more exaggerates.
void Brightness(image::Image& image, float factor);                      // black
void Contrast(image::Image& image, float factor);                        // its mean grey
void Saturation(image::Image& image, float factor);                      // grey; nothing happens to one channel
void Sharpness(image::Image& image, float factor, image::Image& spare);  // smoothed

/// Turns the hue by `shift` of 256 steps (torchvision's adjust_hue); nothing happens to one channel.
void ShiftHue(image::Image& image, uint8_t shift);

/// Pixel (x, y) of the result is that of the image at (m[0] x + m[1] y + m[2], m[3] x + m[4] y + m[5]), pixels' centres
/// at ½, bilinear; `fill` where that lies outside (Image.transform). `fill`: one a channel, or empty for black.
void Affine(image::Image& image, const std::array<double, 6>& m, std::span<const uint8_t> fill, image::Image& spare);
/// The matrix that turns counterclockwise around the centre (Image.rotate).
std::array<double, 6> Rotation(double degrees, int64_t height, int64_t width);

}  // namespace qkv::train
