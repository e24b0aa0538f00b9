#include "qkv/train/data/augment.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "qkv/core/error.h"
#include "qkv/train/data/image_ops.h"

namespace qkv::train {
namespace {

using image::Image;

double Uniform(Rng& rng, double low, double high) { return low + (high - low) * rng.Uniform(); }

// Uniform in 0 … count − 1.
int64_t Below(Rng& rng, int64_t count) { return static_cast<int64_t>(rng.Next() % static_cast<uint64_t>(count)); }

// Marsaglia and Tsang 2000; shapes below 1 use the power of a uniform number.
double Gamma(Rng& rng, double shape) {
  if (shape < 1) {
    const double more = Gamma(rng, shape + 1);
    return more * std::pow(1 - rng.Uniform(), 1 / shape);
  }
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = rng.Normal(), v = std::pow(1 + c * x, 3);
    if (v <= 0) continue;
    if (std::log(1 - rng.Uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

double Beta(Rng& rng, double a, double b) {
  const double x = Gamma(rng, a), y = Gamma(rng, b);
  return x + y > 0 ? x / (x + y) : 0.5;  // both can underflow to 0 for tiny a and b
}

// --- Crops ----------------------------------------------------------------------------------------------------------

// Copies a rectangle of the image to `part`.
void Cut(const Image& image, int64_t top, int64_t left, int64_t height, int64_t width, Image& part) {
  const int64_t C = image.channels();
  part.pixels.Reuse({height, width, C});
  for (int64_t y = 0; y < height; ++y) {
    std::memcpy(part.pixels.data() + y * width * C, image.pixels.data() + ((top + y) * image.width() + left) * C,
                static_cast<size_t>(width * C));
  }
}

struct Box {
  int64_t top, left, height, width;
};

Box ResizedBox(const Augmentation& augmentation, int64_t height, int64_t width, Rng& rng) {
  constexpr int kTries = 10;
  const auto H = static_cast<double>(height), W = static_cast<double>(width);
  const double log_ratio = std::log(augmentation.greatest_ratio);
  for (int i = 0; i < kTries; ++i) {
    const double area = H * W * Uniform(rng, augmentation.least_area, 1);
    const double ratio = std::exp(Uniform(rng, -log_ratio, log_ratio));
    const int64_t w = std::lrint(std::sqrt(area * ratio)), h = std::lrint(std::sqrt(area / ratio));
    if (w < 1 || w > width || h < 1 || h > height) continue;
    const int64_t top = Below(rng, height - h + 1);
    return {top, Below(rng, width - w + 1), h, w};
  }
  // Fallback: the centre, with the nearest allowed ratio.
  const double ratio = std::clamp(W / H, 1 / augmentation.greatest_ratio, augmentation.greatest_ratio);
  const int64_t w = std::clamp<int64_t>(std::lrint(H * ratio), 1, width);
  const int64_t h = std::clamp<int64_t>(std::lrint(W / ratio), 1, height);
  return {(height - h) / 2, (width - w) / 2, h, w};
}

void Shift(Image& image, int64_t down, int64_t right, Image& spare) {
  const int64_t H = image.height(), W = image.width(), C = image.channels();
  spare.pixels.Reuse(image.pixels.shape());
  for (int64_t y = 0; y < H; ++y) {
    uint8_t* out = spare.pixels.data() + y * W * C;
    std::fill_n(out, W * C, uint8_t{0});
    const int64_t begin = std::clamp<int64_t>(right, 0, W), end = std::clamp<int64_t>(W + right, 0, W);
    if (y < down || y >= H + down || begin == end) continue;
    std::memcpy(out + begin * C, image.pixels.data() + ((y - down) * W + begin - right) * C,
                static_cast<size_t>((end - begin) * C));
  }
  std::swap(image, spare);
}

// --- RandAugment ----------------------------------------------------------------------------------------------------

constexpr double kGreatestMagnitude = 10;
constexpr int kOperations = 15;

// timm's "increasing" operations: a greater magnitude changes more. `level`: 0 … 1.
void Operate(int64_t operation, double level, const Augmentation& augmentation, Rng& rng, Image& image, Image& spare) {
  const auto either_way = [&](double x) { return rng.Uniform() < 0.5 ? -x : x; };
  const auto factor = [&] { return static_cast<float>(std::max(0.1, 1 + either_way(0.9 * level))); };
  const auto transform = [&](const std::array<double, 6>& m) { Affine(image, m, augmentation.fill, spare); };
  switch (operation) {
    case 0:
      return AutoContrast(image);
    case 1:
      return Equalize(image);
    case 2:
      return Invert(image);
    case 3:
      return transform(Rotation(either_way(30 * level), image.height(), image.width()));
    case 4:
      return Posterize(image, 4 - static_cast<int>(4 * level));
    case 5:
      return Solarize(image, 256 - static_cast<int>(256 * level));
    case 6:
      return SolarizeAdd(image, static_cast<int>(110 * level));
    case 7:
      return Saturation(image, factor());
    case 8:
      return Contrast(image, factor());
    case 9:
      return Brightness(image, factor());
    case 10:
      return Sharpness(image, factor(), spare);
    case 11:
      return transform({1, either_way(0.3 * level), 0, 0, 1, 0});
    case 12:
      return transform({1, 0, 0, either_way(0.3 * level), 1, 0});
    case 13:
      return transform({1, 0, either_way(0.45 * level) * static_cast<double>(image.width()), 0, 1, 0});
    default:
      return transform({1, 0, 0, 0, 1, either_way(0.45 * level) * static_cast<double>(image.height())});
  }
}

void RandAugment(const Augmentation& augmentation, Rng& rng, Image& image, Image& spare) {
  constexpr double kProbability = 0.5, kDeviation = 0.5;
  for (int64_t i = 0; i < augmentation.operations; ++i) {
    const int64_t operation = Below(rng, kOperations);
    if (rng.Uniform() >= kProbability) continue;
    const double magnitude = std::clamp(augmentation.magnitude + kDeviation * rng.Normal(), 0.0, kGreatestMagnitude);
    Operate(operation, magnitude / kGreatestMagnitude, augmentation, rng, image, spare);
  }
}

void Jitter(const Augmentation& augmentation, Rng& rng, Image& image) {
  std::array<int, 4> order = {0, 1, 2, 3};
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<size_t>(Below(rng, static_cast<int64_t>(i)))]);
  }
  for (const int operation : order) {
    if (operation == 3) {
      const double turn = Uniform(rng, -augmentation.hue, augmentation.hue);
      if (augmentation.hue > 0) ShiftHue(image, static_cast<uint8_t>(static_cast<int>(turn * 255)));
      continue;
    }
    const auto factor =
        static_cast<float>(Uniform(rng, std::max(0.0, 1 - augmentation.jitter), 1 + augmentation.jitter));
    if (augmentation.jitter == 0) continue;
    if (operation == 0) Brightness(image, factor);
    if (operation == 1) Contrast(image, factor);
    if (operation == 2) Saturation(image, factor);
  }
}

}  // namespace

void Check(const Augmentation& a) {
  const auto within = [](const char* name, double value, double low, double high) {
    Require(value >= low && value <= high, "augmentation: {} of {}, expected {} to {}", name, value, low, high);
  };
  within("a least area", a.least_area, 1e-4, 1);
  within("a greatest ratio", a.greatest_ratio, 1, 1e3);
  within("a padding", static_cast<double>(a.padding), 0, 1 << 16);
  within("a probability to flip", a.flip, 0, 1);
  within("a number of operations", static_cast<double>(a.operations), 0, 100);
  within("a magnitude", a.magnitude, 0, kGreatestMagnitude);
  within("a jitter", a.jitter, 0, 10);
  within("a hue", a.hue, 0, 0.5);
  within("a probability to erase", a.erase, 0, 1);
  within("a mixup alpha", a.mixup, 0, 1e3);
  within("a cutmix alpha", a.cutmix, 0, 1e3);
}

std::vector<uint8_t> MeanLevels(const image::Preprocess& preprocess) {
  std::vector<uint8_t> levels;
  for (const float mean : preprocess.mean) {
    levels.push_back(static_cast<uint8_t>(std::clamp(std::nearbyint(255 * mean), 0.f, 255.f)));
  }
  return levels;
}

void Augment(const Augmentation& augmentation, int64_t height, int64_t width, Rng& rng, AugmentWorkspace& workspace,
             Image& image) {
  if (augmentation.crop == Augmentation::Crop::kResized) {
    const Box box = ResizedBox(augmentation, image.height(), image.width(), rng);
    Cut(image, box.top, box.left, box.height, box.width, workspace.spare);
    std::swap(image, image::Resize(workspace.spare, height, width, augmentation.filter, workspace.image));
  }
  Require(image.height() == height && image.width() == width, "augment: an image of {} x {} pixels, expected {} x {}",
          image.width(), image.height(), width, height);
  if (augmentation.crop == Augmentation::Crop::kPadded) {
    const int64_t down = Below(rng, 2 * augmentation.padding + 1) - augmentation.padding;
    const int64_t right = Below(rng, 2 * augmentation.padding + 1) - augmentation.padding;
    if (down != 0 || right != 0) Shift(image, down, right, workspace.spare);
  }
  if (rng.Uniform() < augmentation.flip) FlipHorizontally(image);
  RandAugment(augmentation, rng, image, workspace.spare);
  if (augmentation.jitter > 0 || augmentation.hue > 0) Jitter(augmentation, rng, image);
}

void Erase(const Augmentation& augmentation, Rng& rng, View<float> pixels) {
  if (augmentation.erase == 0 || rng.Uniform() >= augmentation.erase) return;
  constexpr int kTries = 10;
  constexpr double kLeastArea = 0.02, kGreatestArea = 1.0 / 3, kGreatestRatio = 1 / 0.3;
  const int64_t C = pixels.dim(0), H = pixels.dim(1), W = pixels.dim(2);
  for (int i = 0; i < kTries; ++i) {
    const double area = Uniform(rng, kLeastArea, kGreatestArea) * static_cast<double>(H * W);
    const double ratio = std::exp(Uniform(rng, -std::log(kGreatestRatio), std::log(kGreatestRatio)));
    const int64_t h = std::lrint(std::sqrt(area * ratio)), w = std::lrint(std::sqrt(area / ratio));
    if (h < 1 || w < 1 || h >= H || w >= W) continue;
    const int64_t top = Below(rng, H - h + 1), left = Below(rng, W - w + 1);
    for (int64_t c = 0; c < C; ++c) {
      for (int64_t y = top; y < top + h; ++y) {
        float* row = pixels.at(c, y, left);
        for (int64_t x = 0; x < w; ++x) row[x] = static_cast<float>(rng.Normal());
      }
    }
    return;
  }
}

double Mix(const Augmentation& augmentation, Rng& rng, View<float> a, View<float> b) {
  if (!augmentation.mixes()) return 1;
  const bool both = augmentation.mixup > 0 && augmentation.cutmix > 0;
  const bool cut = both ? rng.Uniform() < 0.5 : augmentation.cutmix > 0;
  const double alpha = cut ? augmentation.cutmix : augmentation.mixup;
  const double share = Beta(rng, alpha, alpha);
  const int64_t C = a.dim(0), H = a.dim(1), W = a.dim(2);
  if (!cut) {
    const auto own = static_cast<float>(share), other = static_cast<float>(1 - share);
    float *pa = a.data(), *pb = b.data();
    for (int64_t i = 0; i < a.size(); ++i) {
      const float x = pa[i], y = pb[i];
      pa[i] = own * x + other * y;
      pb[i] = own * y + other * x;
    }
    return share;
  }
  // A rectangle of the image's aspect ratio around a random point, clipped to the image.
  const double side = std::sqrt(1 - share);
  const auto h = static_cast<int64_t>(static_cast<double>(H) * side),
             w = static_cast<int64_t>(static_cast<double>(W) * side);
  const int64_t y = Below(rng, H), x = Below(rng, W);
  const int64_t y0 = std::max<int64_t>(y - h / 2, 0), y1 = std::min(y + h / 2, H);
  const int64_t x0 = std::max<int64_t>(x - w / 2, 0), x1 = std::min(x + w / 2, W);
  for (int64_t c = 0; c < C; ++c) {
    for (int64_t row = y0; row < y1; ++row) std::swap_ranges(a.at(c, row, x0), a.at(c, row, x1), b.at(c, row, x0));
  }
  return 1 - static_cast<double>((y1 - y0) * (x1 - x0)) / static_cast<double>(H * W);
}

}  // namespace qkv::train
