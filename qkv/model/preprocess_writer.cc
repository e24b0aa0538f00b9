#include "qkv/model/preprocess_writer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "qkv/core/error.h"

namespace qkv::model {
namespace {

using image::Preprocess;
using Resize = Preprocess::Resize;

// In the order of image::Filter.
constexpr const char* kTimmFilters[] = {"nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"};
constexpr int kPillowFilters[] = {0, 4, 2, 5, 3, 1};

bool CropsNothing(const Preprocess& p) {
  return p.resize == Resize::kExact && p.crop_height == p.resize_height && p.crop_width == p.resize_width;
}

// Whether a centre crop can have an odd margin, which the two libraries round to different sides.
bool CropsOddly(const Preprocess& p) {
  if (p.crop == Preprocess::Crop::kNone || CropsNothing(p)) return false;
  return p.resize != Resize::kExact || (p.resize_height - p.crop_height) % 2 != 0 ||
         (p.resize_width - p.crop_width) % 2 != 0;
}

// timm's arithmetic: it resizes to floor(size / crop_pct), then crops to size.
int64_t ScaledSize(int64_t size, double crop_pct) {
  return static_cast<int64_t>(std::floor(static_cast<double>(size) / crop_pct));
}

// A crop_pct that makes timm resize to these edges, as nearly as one number can.
double CropPct(int64_t height, int64_t resize_height, int64_t width, int64_t resize_width) {
  const auto ratio = [](int64_t a, int64_t b) { return static_cast<double>(a) / static_cast<double>(b); };
  return ShortestDecimal(std::min(ratio(height, resize_height), ratio(width, resize_width)), [&](double pct) {
    return pct > 0 && ScaledSize(height, pct) == resize_height && ScaledSize(width, pct) == resize_width;
  });
}

// Means and deviations of pixels that were divided by 255, whatever the processor multiplied them by.
std::vector<double> PerUnit(const Preprocess& p, const std::vector<float>& values, double otherwise) {
  std::vector<double> result(static_cast<size_t>(std::max(1, p.channels)), otherwise / (255 * p.rescale));
  const bool as_is = std::abs(255 * p.rescale - 1) < 1e-9;
  for (size_t i = 0; i < values.size() && i < result.size(); ++i) {
    result[i] = as_is ? AsWritten(values[i]) : AsWritten(values[i]) / (255 * p.rescale);
  }
  return result;
}

std::vector<double> Written(const std::vector<float>& values) {
  std::vector<double> result;
  std::transform(values.begin(), values.end(), std::back_inserter(result), AsWritten);
  return result;
}

io::Json SizeObject(int64_t height, int64_t width) { return {{"height", height}, {"width", width}}; }

}  // namespace

double AsWritten(float x) { return std::stod(fmt::format("{}", x)); }

double ShortestDecimal(double x, const std::function<bool(double)>& fits) {
  double scale = 1;
  for (int digits = 0; digits <= 9; ++digits, scale *= 10) {
    for (const double candidate : {std::floor(x * scale) / scale, std::ceil(x * scale) / scale}) {
      if (fits(candidate)) return candidate;
    }
  }
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double candidate : {x, std::nextafter(x, -kInfinity), std::nextafter(x, kInfinity)}) {
    if (fits(candidate)) return candidate;
  }
  return x;
}

io::Json PreprocessToTimm(const Preprocess& p, int64_t height, int64_t width, std::vector<std::string>* notes) {
  const bool crops = p.crop != Preprocess::Crop::kNone;
  if (crops) {
    height = p.crop_height;
    width = p.crop_width;
  } else if (p.resize == Resize::kExact) {
    height = p.resize_height;
    width = p.resize_width;
  }
  io::Json cfg = {{"input_size", {p.channels, height, width}}, {"crop_mode", "center"}, {"crop_pct", 1.0}};
  cfg["interpolation"] = kTimmFilters[static_cast<int>(p.filter)];
  cfg["mean"] = PerUnit(p, p.mean, 0);
  cfg["std"] = PerUnit(p, p.std, 1);

  int64_t resize_height = p.resize_height, resize_width = p.resize_width;
  switch (p.resize) {
    case Resize::kExact:
      cfg["crop_mode"] = "squash";
      break;
    case Resize::kFit:
      cfg["crop_mode"] = "border";
      break;
    case Resize::kCover:
      break;
    case Resize::kShortestEdge:
      // timm's own rule for squares; other shapes it scales until both edges are covered.
      if (height == width) break;
      notes->push_back(
          fmt::format("timm cannot resize the shorter edge to {} before it crops {}x{}: it will resize "
                      "until the crop is filled",
                      p.resize_height, height, width));
      resize_height = height;
      resize_width = width;
      break;
    case Resize::kNone:
      notes->push_back(
          fmt::format("timm always resizes images, here to {}x{}; this model's processor does not", height, width));
      resize_height = height;
      resize_width = width;
      break;
  }
  if (!crops && p.resize == Resize::kShortestEdge) {
    notes->push_back(
        fmt::format("timm crops images to one size, here {}x{}; this model's processor does not", height, width));
  }
  const double pct = CropPct(height, resize_height, width, resize_width);
  cfg["crop_pct"] = pct;
  if (ScaledSize(height, pct) != resize_height || ScaledSize(width, pct) != resize_width) {
    notes->push_back(
        fmt::format("timm has one crop_pct for both edges: it will resize to {}x{} where this model's "
                    "processor resizes to {}x{}",
                    ScaledSize(height, pct), ScaledSize(width, pct), resize_height, resize_width));
  }
  if (p.crop == Preprocess::Crop::kHuggingFace && CropsOddly(p)) {
    notes->push_back("where a crop's margin is odd, timm's may begin one pixel further right or down");
  }
  return cfg;
}

io::Json PreprocessToHuggingFace(const Preprocess& p, std::vector<std::string>* notes) {
  const bool crops = p.crop != Preprocess::Crop::kNone && !CropsNothing(p);
  io::Json json;
  json["do_resize"] = p.resize != Resize::kNone;
  json["resample"] = kPillowFilters[static_cast<int>(p.filter)];
  json["do_center_crop"] = crops;
  if (crops) json["crop_size"] = SizeObject(p.crop_height, p.crop_width);
  json["image_processor_type"] = "BitImageProcessor";
  switch (p.resize) {
    case Resize::kNone:
      break;
    case Resize::kExact:
      json["image_processor_type"] = crops ? "DeiTImageProcessor" : "ViTImageProcessor";
      json["size"] = SizeObject(p.resize_height, p.resize_width);
      break;
    case Resize::kShortestEdge:
      json["size"] = {{"shortest_edge", p.resize_height}};
      break;
    case Resize::kCover:
      json["size"] = {{"shortest_edge", std::max(p.resize_height, p.resize_width)}};
      notes->push_back(
          fmt::format("Hugging Face cannot resize until {}x{} is covered: its processor will resize the "
                      "shorter edge to {}",
                      p.resize_height, p.resize_width, std::max(p.resize_height, p.resize_width)));
      break;
    case Resize::kFit:
      json["image_processor_type"] = "ViTImageProcessor";
      json["size"] = SizeObject(p.crop_height, p.crop_width);
      json["do_center_crop"] = false;
      json.erase("crop_size");
      notes->push_back(
          fmt::format("Hugging Face cannot fit an image into {}x{} and pad it: its processor will squash "
                      "it to {}x{}",
                      p.resize_height, p.resize_width, p.crop_height, p.crop_width));
      break;
  }
  json["do_rescale"] = p.rescale != 1;
  if (p.rescale != 1) json["rescale_factor"] = p.rescale;
  json["do_normalize"] = !p.mean.empty();
  if (!p.mean.empty()) {
    json["image_mean"] = Written(p.mean);
    json["image_std"] = Written(p.std);
  }
  if (p.channels == 3) json["do_convert_rgb"] = true;
  if (crops && p.crop == Preprocess::Crop::kTorchvision && CropsOddly(p)) {
    notes->push_back("where a crop's margin is odd, Hugging Face's may begin one pixel further left or up");
  }
  return json;
}

}  // namespace qkv::model
