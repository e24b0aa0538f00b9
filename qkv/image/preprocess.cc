#include "qkv/image/preprocess.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "qkv/core/work.h"
#include "qkv/image/resize_region.h"
#include "qkv/image/workspace.h"

namespace qkv::image {
namespace {

// Far above any model's input (16,384 pixels square), well below available memory.
constexpr int64_t kMaxPixels = int64_t{1} << 28;
// Pillow's sizes are 32-bit integers.
constexpr int64_t kMaxSide = INT32_MAX;

struct Size {
  int64_t height, width;
};

/// Python's round(): half to even, regardless of the process's rounding mode.
int64_t RoundHalfEven(double x) {
  const double floor = std::floor(x), fraction = x - floor;
  const auto low = static_cast<int64_t>(floor);
  if (fraction != 0.5) return low + (fraction > 0.5);
  return low + (low % 2 != 0);
}

/// As get_size_with_aspect_ratio of YOLOS's processor computes it, in Python's order of operations.
Size SizeOfEdges(const Preprocess& p, Size in) {
  const int64_t shorter = std::min(in.height, in.width), longer = std::max(in.height, in.width);
  const auto low = static_cast<double>(shorter), high = static_cast<double>(longer);
  int64_t edge = p.resize_height;
  auto exact = static_cast<double>(edge);  // not rounded where the longer edge decides
  if (high / low * static_cast<double>(edge) > static_cast<double>(p.resize_width)) {
    exact = static_cast<double>(p.resize_width) * low / high;
    edge = RoundHalfEven(exact);
  }
  const auto other = shorter == edge ? longer : static_cast<int64_t>(exact * high / low);
  const auto down = [&](int64_t side) { return side - side % p.resize_multiple; };
  return in.width < in.height ? Size{down(other), down(edge)} : Size{down(edge), down(other)};
}

Size SizeFor(const Preprocess& p, Size in) {
  const auto height = static_cast<double>(in.height), width = static_cast<double>(in.width);
  switch (p.resize) {
    case Preprocess::Resize::kNone:
      return in;
    case Preprocess::Resize::kExact:
      return {p.resize_height, p.resize_width};
    case Preprocess::Resize::kShortestEdge: {
      const int64_t edge = p.resize_height, shorter = std::min(in.height, in.width);
      const double longer = static_cast<double>(edge * std::max(in.height, in.width)) / static_cast<double>(shorter);
      const auto scaled = static_cast<int64_t>(longer);
      return in.width <= in.height ? Size{scaled, edge} : Size{edge, scaled};
    }
    case Preprocess::Resize::kEdges:
      return SizeOfEdges(p, in);
    case Preprocess::Resize::kFit:
    case Preprocess::Resize::kCover: {
      const double by_height = height / static_cast<double>(p.resize_height);
      const double by_width = width / static_cast<double>(p.resize_width);
      const double ratio =
          p.resize == Preprocess::Resize::kFit ? std::max(by_height, by_width) : std::min(by_height, by_width);
      return {RoundHalfEven(height / ratio), RoundHalfEven(width / ratio)};
    }
  }
  return in;
}

/// The resized size, validated.
Size CheckedSize(const Preprocess& p, Size in) {
  Require(in.height > 0 && in.width > 0, "preprocess: an image of {} x {} pixels", in.width, in.height);
  Require(p.resize == Preprocess::Resize::kNone ||
              (p.resize_height > 0 && p.resize_height <= kMaxSide &&
               (p.resize == Preprocess::Resize::kShortestEdge || (p.resize_width > 0 && p.resize_width <= kMaxSide))),
          "preprocess: resize to {} x {} pixels", p.resize_width, p.resize_height);
  const Size size = SizeFor(p, in);
  Require(size.height > 0 && size.width > 0 && size.height <= kMaxSide && size.width <= kMaxSide,
          "preprocess: {} x {} pixels would be resized to {} x {}", in.width, in.height, size.width, size.height);
  return size;
}

/// Start of the crop in the resized image; negative if the image is padded.
int64_t CropOffset(Preprocess::Crop crop, int64_t size, int64_t crop_size) {
  const int64_t margin = size - crop_size;
  if (crop == Preprocess::Crop::kCorner) return 0;
  if (margin < 0) return crop == Preprocess::Crop::kHuggingFace ? -((1 - margin) / 2) : -(-margin / 2);
  if (crop == Preprocess::Crop::kHuggingFace) return margin / 2;
  return RoundHalfEven(static_cast<double>(margin) / 2);
}

/// The output value of each of the 256 levels of a channel.
std::array<float, 256> Levels(const Preprocess& p, size_t channel) {
  const bool normalise = !p.mean.empty() || !p.std.empty();
  std::array<float, 256> levels;
  for (int i = 0; i < 256; ++i) {
    // First in double, as Hugging Face computes it; for 1/255 this rounds to timm's x/255 in float at every level.
    const auto x = static_cast<float>(i * p.rescale);
    levels[i] = normalise ? (x - p.mean[channel]) / p.std[channel] : x;
  }
  return levels;
}

}  // namespace

Shape OutputShape(const Preprocess& p, int64_t height, int64_t width) {
  Size size = CheckedSize(p, {height, width});
  if (p.crop == Preprocess::Crop::kWhole) {
    Require(p.crop_height > 0 && p.crop_width > 0 && size.height >= p.crop_height && size.width >= p.crop_width,
            "preprocess: an image of {} x {} pixels holds no patch of {} x {}", size.width, size.height, p.crop_width,
            p.crop_height);
    size = {size.height - size.height % p.crop_height, size.width - size.width % p.crop_width};
  } else if (p.crop != Preprocess::Crop::kNone) {
    size = {p.crop_height, p.crop_width};
  }
  Require(size.height > 0 && size.width > 0 && size.width <= kMaxPixels / size.height,
          "preprocess: {} x {} pixels would become {} x {}", width, height, size.width, size.height);
  return {p.channels, size.height, size.width};
}

std::optional<Shape> FixedShape(const Preprocess& p) {
  const bool crops = p.crop != Preprocess::Crop::kNone && p.crop != Preprocess::Crop::kWhole;
  if (!crops && p.resize != Preprocess::Resize::kExact) return std::nullopt;
  return OutputShape(p, 1, 1);
}

Rect VisibleRect(const Preprocess& p, int64_t height, int64_t width) {
  const Shape shape = OutputShape(p, height, width);
  const Size full = CheckedSize(p, {height, width});
  const bool crops = p.crop != Preprocess::Crop::kNone;
  // Image pixels per pixel of the resized image.
  const double down = static_cast<double>(height) / static_cast<double>(full.height);
  const double across = static_cast<double>(width) / static_cast<double>(full.width);
  return {down * static_cast<double>(crops ? CropOffset(p.crop, full.height, shape[1]) : 0),
          across * static_cast<double>(crops ? CropOffset(p.crop, full.width, shape[2]) : 0),
          down * static_cast<double>(shape[1]), across * static_cast<double>(shape[2])};
}

ResizedSize SizeAfterResize(const Preprocess& p, int64_t height, int64_t width) {
  const Size size = CheckedSize(p, {height, width});
  return {size.height, size.width};
}

std::vector<int64_t> Squares(const Preprocess& p, int64_t height, int64_t width) {
  const Size full = CheckedSize(p, {height, width});
  const int64_t side = p.crop_height, longer = std::max(full.height, full.width);
  Require(p.squares && side > 0 && side == p.crop_width && side == std::min(full.height, full.width),
          "preprocess: {} x {} pixels are no squares of {} x {}", full.width, full.height, p.crop_width, side);
  const int64_t count = (longer + side - 1) / side;
  // In Python's order of operations.
  const double overlap = count > 1 ? static_cast<double>(count * side - longer) / static_cast<double>(count - 1) : 0.0;
  std::vector<int64_t> starts;
  for (int64_t i = 0; i < count; ++i) {
    starts.push_back(static_cast<int64_t>(static_cast<double>(i) * (static_cast<double>(side) - overlap)));
  }
  return starts;
}

void Apply(const Preprocess& p, const Image& image, View<float> out) {
  Workspace workspace;
  Apply(p, image, workspace, out);
}

namespace {

// As Apply. square: where it begins along the longer side, or −1 for the crop.
void ApplyPart(const Preprocess& p, const Image& image, int64_t square, Workspace& workspace, View<float> out) {
  const auto channels = static_cast<size_t>(p.channels);
  const bool normalise = !p.mean.empty() || !p.std.empty();
  Require(p.channels == 1 || p.channels == 3, "preprocess: {} channels, expected 1 or 3", p.channels);
  Require(!normalise || (p.mean.size() == channels && p.std.size() == channels),
          "preprocess: {} means and {} standard deviations for {} channels", p.mean.size(), p.std.size(), channels);
  Require(p.fill.empty() || p.fill.size() == channels, "preprocess: a fill of {} values for {} channels", p.fill.size(),
          channels);
  const Shape shape = OutputShape(p, image.height(), image.width());
  Require(out.shape() == shape && out.dense(), "preprocess: expected a dense tensor {}, got {}", shape, out.shape());

  const bool converts = image.channels() != p.channels;
  if (converts) ToChannels(image, p.channels, workspace.converted);
  const Image& source = converts ? workspace.converted : image;
  const Size full = CheckedSize(p, {image.height(), image.width()});
  const int64_t height = shape[1], width = shape[2];
  const bool crops = p.crop != Preprocess::Crop::kNone;
  int64_t top = crops ? CropOffset(p.crop, full.height, height) : 0;
  int64_t left = crops ? CropOffset(p.crop, full.width, width) : 0;
  if (square >= 0) (full.height > full.width ? top : left) = square;
  // The output's part of the resized image; the rest is padding.
  const int64_t y0 = std::max<int64_t>(top, 0), y1 = std::min(top + height, full.height);
  const int64_t x0 = std::max<int64_t>(left, 0), x1 = std::min(left + width, full.width);
  const Image& part = ResizeRegion(source, {full.height, full.width, y0, x0, y1 - y0, x1 - x0}, p.filter, workspace);

  for (size_t c = 0; c < channels; ++c) {
    const std::array<float, 256> level = Levels(p, c);
    const View<float> plane = out[static_cast<int64_t>(c)];  // [height, width]
    if (part.height() < height || part.width() < width)
      std::fill_n(plane.data(), height * width, level[p.fill.empty() ? 0 : p.fill[c]]);
    for (int64_t y = y0; y < y1; ++y) {
      Spend(x1 - x0);
      const uint8_t* in = part.pixels.data() + (y - y0) * part.width() * p.channels + c;
      float* out_y = plane.row(y - top) + (x0 - left);
      for (int64_t x = 0; x < x1 - x0; ++x) out_y[x] = level[in[x * p.channels]];
    }
  }
}

}  // namespace

void Apply(const Preprocess& p, const Image& image, Workspace& workspace, View<float> out) {
  ApplyPart(p, image, -1, workspace, out);
}

void ApplySquare(const Preprocess& p, const Image& image, int64_t start, Workspace& workspace, View<float> out) {
  Require(p.squares && start >= 0, "preprocess: no squares, or one that begins at {}", start);
  ApplyPart(p, image, start, workspace, out);
}

}  // namespace qkv::image
