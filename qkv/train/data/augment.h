// Data augmentation of training images. Every random number comes from the caller's generator, so results depend on the
// seed only.
#pragma once

#include <cstdint>
#include <vector>

#include "qkv/core/rng.h"
#include "qkv/core/tensor.h"
#include "qkv/image/image.h"
#include "qkv/image/preprocess.h"
#include "qkv/image/resize.h"
#include "qkv/image/workspace.h"

namespace qkv::train {

struct Augmentation {
  enum class Crop {
    kNone,     // none: the image has the training size already
    kResized,  // random area and aspect ratio, resized (Szegedy et al. 2014; torchvision's RandomResizedCrop)
    kPadded,  // an image of the training size, shifted by up to `padding` pixels each way, black outside (torchvision's
              // RandomCrop)
  };
  Crop crop = Crop::kNone;
  double least_area = 0.08;         // smallest share of the image's area, for kResized
  double greatest_ratio = 4.0 / 3;  // greatest aspect ratio, width to height or height to width
  image::Filter filter = image::Filter::kBicubic;
  int64_t padding = 4;
  double flip = 0;  // probability of a horizontal flip

  // RandAugment (Cubuk et al. 2019) as in timm, "rand-mM-nN-mstd0.5-inc1": `operations` per image, each applied with
  // probability ½ at a magnitude near `magnitude`, 0 … 10. See image_ops.h. `fill` is the colour beyond the image's
  // border, one value per channel; empty: black.
  int64_t operations = 0;
  double magnitude = 9;
  std::vector<uint8_t> fill;

  // Brightness, contrast and saturation are multiplied by factors within 1 ± jitter; the hue is rotated by up to `hue`
  // of the circle (0 … 0.5) either way. Random order.
  double jitter = 0, hue = 0;

  // Random erasing (Zhong et al. 2017): probability that a rectangle of the normalised pixels becomes standard normal
  // noise.
  double erase = 0;

  // Parameters α of the Beta distribution of the mixing weight; 0: off. mixup (Zhang et al. 2017) takes weighted sums,
  // cutmix (Yun et al. 2019) pastes a rectangle of the other image. If both are on, each pair uses one, with
  // probability ½.
  double mixup = 0, cutmix = 0;

  bool mixes() const { return mixup > 0 || cutmix > 0; }
};

/// Throws Error, with the member's name, if a member is out of range.
void Check(const Augmentation& augmentation);

/// The 8-bit levels that normalise to about 0, one per channel: the fill colour of timm's create_transform.
std::vector<uint8_t> MeanLevels(const image::Preprocess& preprocess);

/// Scratch memory of one thread.
struct AugmentWorkspace {
  image::Workspace image;
  image::Image spare;
};

/// Applies crop, flip, RandAugment and jitter, in this order; `image`, of 1 or 3 channels, then has height × width
/// pixels. Throws Error if the crop requires an image of that size and gets another.
void Augment(const Augmentation& augmentation, int64_t height, int64_t width, Rng& rng, AugmentWorkspace& workspace,
             image::Image& image);

/// Random erasing of normalised pixels [channels, height, width], dense.
void Erase(const Augmentation& augmentation, Rng& rng, View<float> pixels);

/// Mixes two images [channels, height, width] with each other, in place. Returns the share λ of each image that is its
/// own: the weight of its own class in its target. Above ½, a stays mostly a and b mostly b.
double Mix(const Augmentation& augmentation, Rng& rng, View<float> a, View<float> b);

}  // namespace qkv::train
