// timm's evaluation transform: pretrained_cfg to image::Preprocess, and back.
#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/model/config/preprocess_writer.h"
#include "qkv/model/families/preprocess_common.h"
#include "qkv/model/layout/config_files.h"

namespace qkv::model {
namespace {

using image::Filter;
using image::Preprocess;
using Resize = Preprocess::Resize;

const std::vector<float> kImageNetMean = {0.485f, 0.456f, 0.406f}, kImageNetStd = {0.229f, 0.224f, 0.225f};

// In the order of image::Filter.
constexpr const char* kTimmFilters[] = {"nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"};

Filter TimmFilter(const io::Fields& fields) {
  const std::string name = fields.String("interpolation", "bicubic");
  if (name == "nearest") return Filter::kNearest;
  if (name == "box") return Filter::kBox;
  if (name == "bilinear") return Filter::kBilinear;
  if (name == "hamming") return Filter::kHamming;
  if (name == "bicubic" || name.empty()) return Filter::kBicubic;
  if (name == "lanczos") return Filter::kLanczos;
  // Rejects "random" too: it is for training, and timm's own evaluation rejects it.
  Fail("{}: \"interpolation\" is \"{}\", expected nearest, box, bilinear, hamming, bicubic or lanczos", fields.where(),
       name);
}

/// Python's round(), half to even, of 255·mean.
uint8_t FillByte(float mean) {
  const double x = std::clamp(255.0 * mean, 0.0, 255.0);
  return static_cast<uint8_t>(std::nearbyint(x));
}

// As timm: it resizes to floor(size / crop_pct), then crops to size.
int64_t ScaledSize(int64_t size, double crop_pct) {
  return static_cast<int64_t>(std::floor(static_cast<double>(size) / crop_pct));
}

// A crop_pct with which timm resizes to these edges, as closely as one number can.
double CropPct(int64_t height, int64_t resize_height, int64_t width, int64_t resize_width) {
  const auto ratio = [](int64_t a, int64_t b) { return static_cast<double>(a) / static_cast<double>(b); };
  return ShortestDecimal(std::min(ratio(height, resize_height), ratio(width, resize_width)), [&](double pct) {
    return pct > 0 && ScaledSize(height, pct) == resize_height && ScaledSize(width, pct) == resize_width;
  });
}

// Means and deviations for pixels divided by 255, whatever factor the processor uses.
std::vector<double> PerUnit(const Preprocess& p, const std::vector<float>& values, double otherwise) {
  std::vector<double> result(static_cast<size_t>(std::max(1, p.channels)), otherwise / (255 * p.rescale));
  const bool as_is = std::abs(255 * p.rescale - 1) < 1e-9;
  for (size_t i = 0; i < values.size() && i < result.size(); ++i) {
    result[i] = as_is ? ShortestDecimalValue(values[i]) : ShortestDecimalValue(values[i]) / (255 * p.rescale);
  }
  return result;
}

}  // namespace

Preprocess PreprocessFromTimm(const io::Fields& fields, ImageSize size) {
  CheckOverride(size);
  Preprocess p;
  p.crop = Preprocess::Crop::kTorchvision;
  p.crop_height = p.crop_width = 224;
  if (fields.Has("input_size")) {
    const io::Json& input = *fields.json().find("input_size");
    Require(input.is_array() && input.size() == 3 &&
                std::all_of(input.begin(), input.end(), [](const io::Json& x) { return x.is_number_integer(); }),
            "{}: \"input_size\" is {}, expected [channels, height, width]", fields.where(), input.dump());
    p.channels = static_cast<int>(Side(fields, "input_size", input[0].get<int64_t>()));
    p.crop_height = Side(fields, "input_size", input[1].get<int64_t>());
    p.crop_width = Side(fields, "input_size", input[2].get<int64_t>());
  }
  Require(p.channels <= 16, "{}: \"input_size\" has {} channels", fields.where(), p.channels);
  if (size) std::tie(p.crop_height, p.crop_width) = *size;

  double crop_pct = fields.Number("crop_pct", 0);
  if (crop_pct == 0) crop_pct = 0.875;  // timm treats 0 as missing
  Require(crop_pct > 0 && crop_pct <= 100, "{}: \"crop_pct\" is {}", fields.where(), crop_pct);
  p.resize_height = static_cast<int64_t>(std::floor(static_cast<double>(p.crop_height) / crop_pct));
  p.resize_width = static_cast<int64_t>(std::floor(static_cast<double>(p.crop_width) / crop_pct));
  p.filter = TimmFilter(fields);
  p.mean = Channels(fields, "mean", kImageNetMean, p.channels);
  p.std = Deviations(fields, "std", kImageNetStd, p.channels);

  const std::string mode = fields.String("crop_mode", "center");
  if (mode == "squash") {
    p.resize = Preprocess::Resize::kExact;
  } else if (mode == "border") {
    p.resize = Preprocess::Resize::kFit;
    // timm fills with the mean; open_clip has a colour of its own.
    for (const float mean : p.mean) {
      p.fill.push_back(fields.Has("fill_color") ? static_cast<uint8_t>(fields.Int("fill_color", 0)) : FillByte(mean));
    }
  } else {
    Require(mode == "center" || mode.empty(), "{}: \"crop_mode\" is \"{}\", expected center, squash or border",
            fields.where(), mode);
    p.resize = p.resize_height == p.resize_width ? Preprocess::Resize::kShortestEdge : Preprocess::Resize::kCover;
  }
  return p;
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
      // timm's rule for squares; it scales other shapes until both edges are covered.
      if (height == width) break;
      notes->push_back(
          fmt::format("timm cannot resize the shorter edge to {} before it crops {}x{}: it will resize "
                      "until the crop is filled",
                      p.resize_height, height, width));
      resize_height = height;
      resize_width = width;
      break;
    case Resize::kEdges:
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
  if (p.crop == Preprocess::Crop::kHuggingFace && HasOddCropMargin(p)) {
    notes->push_back("where a crop's margin is odd, timm's may begin one pixel further right or down");
  }
  return cfg;
}

void ChangeTimmPreprocess(const Description& description, const io::Json& settings, const ModelHints& given,
                          ConfigFiles* files) {
  const int64_t channels = description.config.channels;
  io::Json cfg = description.preprocess_json;
  // In old files the keys are beside those of the model.
  for (const char* key : {"architecture", "model_args", "label_names", "label_descriptions"}) cfg.erase(key);
  cfg.update(settings);
  if (!given.mean.empty()) cfg["mean"] = PerChannel(given.mean, channels, "--mean");
  if (!given.std.empty()) cfg["std"] = PerChannel(given.std, channels, "--std");
  if (given.crop_pct > 0) cfg["crop_pct"] = given.crop_pct;
  files->config["pretrained_cfg"] = std::move(cfg);
}

}  // namespace qkv::model
