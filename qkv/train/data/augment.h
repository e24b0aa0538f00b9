// What is done to images in training, so that no two passes see the same pixels. All random numbers of an image are
// those of the generator that the caller hands over: results depend on nothing else.
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
    kNone,     // the image has the training size already
    kResized,  // a part of random area and shape, resized (Szegedy et al. 2014; torchvision's RandomResizedCrop)
    kPadded,   // the image, which has the training size, shifted by up to `padding` pixels each way, black beside it
               // (torchvision's RandomCrop)
  };
  Crop crop = Crop::kNone;
  double least_area = 0.08;         // of the image's, of a resized crop
  double greatest_ratio = 4.0 / 3;  // of width to height, and of height to width
  image::Filter filter = image::Filter::kBicubic;
  int64_t padding = 4;
  double flip = 0;  // probability of left and right changing places

  // RandAugment (Cubuk et al. 2019) as timm has it, "rand-mM-nN-mstd0.5-inc1": operations for each image, each done
  // with probability ½ at a magnitude near `magnitude`, 0 … 10. See image_ops.h. `fill` is what they show beyond an
  // image's border, one a channel; empty: black.
  int64_t operations = 0;
  double magnitude = 9;
  std::vector<uint8_t> fill;

  // Brightness, contrast and saturation times a factor within 1 ± jitter, and colours turned by up to `hue` of the
  // circle (0 … 0.5) either way, in random order.
  double jitter = 0, hue = 0;

  // Probability that a random rectangle of the normalised pixels becomes standard normal noise (Zhong et al. 2017).
  double erase = 0;

  // Parameters α of the Beta distribution that two images are mixed by; 0: not so. mixup: Zhang et al. 2017, weighted
  // sums; cutmix: Yun et al. 2019, a rectangle of the other. With both, a coin decides for each pair.
  double mixup = 0, cutmix = 0;

  bool mixes() const { return mixup > 0 || cutmix > 0; }
};

/// Throws Error that names the member that is out of bounds.
void Check(const Augmentation& augmentation);

/// The levels that normalising makes about 0 of, one a channel: what timm's create_transform fills with.
std::vector<uint8_t> MeanLevels(const image::Preprocess& preprocess);

/// A thread's scratch memory.
struct AugmentWorkspace {
  image::Workspace image;
  image::Image spare;
};

/// Crop, flip, RandAugment and jitter, in this order; `image` has then height × width pixels. 1 or 3 channels.
/// Throws Error when the crop expects an image of that size and gets another.
void Augment(const Augmentation& augmentation, int64_t height, int64_t width, Rng& rng, AugmentWorkspace& workspace,
             image::Image& image);

/// Random erasing of normalised pixels, [channels, height, width], dense.
void Erase(const Augmentation& augmentation, Rng& rng, View<float> pixels);

/// Mixes two images [channels, height, width] with each other: both become mixtures, a mostly of a where the returned
/// share is above ½. What of a is still a, and of b b: the weight of its own class in the target of each.
double Mix(const Augmentation& augmentation, Rng& rng, View<float> a, View<float> b);

}  // namespace qkv::train
