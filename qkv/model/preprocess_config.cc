#include "qkv/model/preprocess_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/model/fields.h"

namespace qkv::model {
namespace {

using image::Filter;
using image::Preprocess;

const std::vector<float> kImageNetMean = {0.485f, 0.456f, 0.406f}, kImageNetStd = {0.229f, 0.224f, 0.225f};
const std::vector<float> kClipMean = {0.48145466f, 0.4578275f, 0.40821073f};
const std::vector<float> kClipStd = {0.26862954f, 0.26130258f, 0.27577711f};
const std::vector<float> kHalf = {0.5f, 0.5f, 0.5f};

/// A side in pixels.
int64_t Side(const Fields& fields, std::string_view key, int64_t side) {
  Require(side > 0 && side <= INT32_MAX, "{}: \"{}\" is {}, expected a number of pixels", fields.where(), key, side);
  return side;
}

/// One number a channel: a number or a list. A list for three channels serves one channel where all are equal (a model
/// changed to grey often keeps it); other lengths stay, for Apply to refuse, since pixels may be given without it.
std::vector<float> Channels(const Fields& fields, std::string_view key, const std::vector<float>& otherwise,
                            int channels) {
  std::vector<float> values = otherwise;
  if (fields.Has(key)) {
    const io::Json& json = *fields.json().find(key);
    const io::Json list = json.is_array() ? json : io::Json::array({json});
    values.clear();
    for (const io::Json& value : list) {
      Require(value.is_number(), "{}: \"{}\" has {}, expected numbers", fields.where(), key, value.type_name());
      values.push_back(static_cast<float>(value.get<double>()));
      Require(std::isfinite(values.back()), "{}: \"{}\" has {}", fields.where(), key, values.back());
    }
    Require(!values.empty(), "{}: \"{}\" is empty", fields.where(), key);
  }
  const bool all_equal = std::all_of(values.begin(), values.end(), [&](float x) { return x == values[0]; });
  if (all_equal && channels > 0) values.assign(static_cast<size_t>(channels), values[0]);
  return values;
}

std::vector<float> Deviations(const Fields& fields, std::string_view key, const std::vector<float>& otherwise,
                              int channels) {
  std::vector<float> values = Channels(fields, key, otherwise, channels);
  for (const float x : values) Require(x != 0, "{}: \"{}\" has a zero", fields.where(), key);
  return values;
}

Filter TimmFilter(const Fields& fields) {
  const std::string name = fields.String("interpolation", "bicubic");
  if (name == "nearest") return Filter::kNearest;
  if (name == "box") return Filter::kBox;
  if (name == "bilinear") return Filter::kBilinear;
  if (name == "hamming") return Filter::kHamming;
  if (name == "bicubic" || name.empty()) return Filter::kBicubic;
  if (name == "lanczos") return Filter::kLanczos;
  // "random" too: it is for training, timm's own evaluation refuses it.
  Fail("{}: \"interpolation\" is \"{}\", expected nearest, box, bilinear, hamming, bicubic or lanczos", fields.where(),
       name);
}

/// Python's round(), half to even, of 255·mean.
uint8_t FillOf(float mean) {
  const double x = std::clamp(255.0 * mean, 0.0, 255.0);
  return static_cast<uint8_t>(std::nearbyint(x));
}

/// The class-level defaults of a Hugging Face image processor.
struct ProcessorDefaults {
  std::string_view name;
  int64_t resample;
  bool shortest_edge;  // a size given as one number is the shortest edge, not a square
  int64_t size;
  bool center_crop;
  const std::vector<float>*mean, *std;
};

constexpr int64_t kCropSize = 224;  // of all classes that crop

const std::array kProcessors = {
    ProcessorDefaults{"ViT", 2, false, 224, false, &kHalf, &kHalf},
    ProcessorDefaults{"DeiT", 3, false, 256, true, &kHalf, &kHalf},
    ProcessorDefaults{"Bit", 3, true, 224, true, &kClipMean, &kClipStd},
    ProcessorDefaults{"CLIP", 3, true, 224, true, &kClipMean, &kClipStd},
};

/// "ViTImageProcessor", "ViTImageProcessorFast", "ViTFeatureExtractor", …
const ProcessorDefaults& DefaultsOf(const Fields& fields) {
  const std::string_view key = fields.Has("image_processor_type") ? "image_processor_type" : "feature_extractor_type";
  const std::string type = fields.String(key, "ViTImageProcessor");
  for (const ProcessorDefaults& defaults : kProcessors) {
    if (!type.starts_with(defaults.name)) continue;
    const std::string_view rest = std::string_view(type).substr(defaults.name.size());
    for (const char* ending : {"ImageProcessor", "ImageProcessorFast", "ImageProcessorPil", "FeatureExtractor"})
      if (rest == ending) return defaults;
  }
  Fail("{}: \"{}\" is \"{}\", expected ViTImageProcessor, DeiTImageProcessor, BitImageProcessor or CLIPImageProcessor",
       fields.where(), key, type);
}

/// A switch of an image processor: null turns a step off, as it does there.
bool Switch(const Fields& fields, std::string_view key, bool otherwise) {
  return fields.Bool(key, fields.json().contains(key) ? false : otherwise);
}

/// null in place of a value that an enabled step needs is refused, as it is there.
void RefuseNull(const Fields& fields, std::string_view key) {
  Require(fields.Has(key) || !fields.json().contains(key), "{}: \"{}\" is null", fields.where(), key);
}

Filter HuggingFaceFilter(const Fields& fields, int64_t otherwise) {
  // Pillow's numbers.
  constexpr std::array kFilters = {Filter::kNearest, Filter::kLanczos, Filter::kBilinear,
                                   Filter::kBicubic, Filter::kBox,     Filter::kHamming};
  const int64_t resample = fields.Int("resample", otherwise);
  Require(resample >= 0 && resample < static_cast<int64_t>(kFilters.size()),
          "{}: \"resample\" is {}, expected one of Pillow's filters, 0 to 5", fields.where(), resample);
  return kFilters[static_cast<size_t>(resample)];
}

/// A size as {"height", "width"}, [height, width] or one number for both; `key` is there.
std::pair<int64_t, int64_t> HeightAndWidth(const Fields& fields, std::string_view key) {
  std::pair<int64_t, int64_t> size;
  if (fields.json().find(key)->is_object()) {
    const Fields object = fields.Object(key);
    for (const auto& [name, value] : object.json().items())
      Require(name == "height" || name == "width" || value.is_null(),
              "{}: \"{}\" has \"{}\", expected height and width", fields.where(), key, name);
    size = {object.RequiredInt("height"), object.RequiredInt("width")};
  } else {
    size = fields.Size(key, {});
  }
  return {Side(fields, key, size.first), Side(fields, key, size.second)};
}

void SetHuggingFaceResize(const Fields& fields, const ProcessorDefaults& defaults, ImageSize override_size,
                          Preprocess& p) {
  const auto set_edge = [&](int64_t edge) {
    p.resize = Preprocess::Resize::kShortestEdge;
    p.resize_height = p.resize_width = Side(fields, "size", edge);
  };
  const auto set_exact = [&](std::pair<int64_t, int64_t> size) {
    p.resize = Preprocess::Resize::kExact;
    std::tie(p.resize_height, p.resize_width) = size;
  };
  const io::Json* size = fields.Has("size") ? &*fields.json().find("size") : nullptr;
  if (size && size->is_object() && fields.Object("size").Has("shortest_edge")) {
    const Fields object = fields.Object("size");
    for (const auto& [name, value] : size->items())
      Require(name == "shortest_edge" || value.is_null(), "{}: \"size\" has \"{}\" beside \"shortest_edge\"",
              fields.where(), name);
    set_edge(object.RequiredInt("shortest_edge"));
  } else if (size && !(size->is_number() && fields.Bool("default_to_square", !defaults.shortest_edge) == false)) {
    set_exact(HeightAndWidth(fields, "size"));
  } else if (size) {
    set_edge(fields.RequiredInt("size"));
  } else if (defaults.shortest_edge) {
    set_edge(defaults.size);
  } else {
    set_exact({defaults.size, defaults.size});
  }
  if (!override_size) return;
  if (p.resize == Preprocess::Resize::kExact) {
    set_exact(*override_size);
  } else {
    set_edge(std::max(override_size->first, override_size->second));
  }
}

void CheckOverride(ImageSize size) {
  if (!size) return;
  Require(size->first > 0 && size->second > 0 && size->first <= INT32_MAX && size->second <= INT32_MAX,
          "preprocess: an input size of {} x {} pixels", size->second, size->first);
}

}  // namespace

Preprocess PreprocessFromTimm(const io::Json& pretrained_cfg, ImageSize size) {
  const Fields fields(pretrained_cfg, "pretrained_cfg");
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
  if (crop_pct == 0) crop_pct = 0.875;  // timm takes a zero for a missing value
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
    for (const float mean : p.mean) p.fill.push_back(FillOf(mean));
  } else {
    Require(mode == "center" || mode.empty(), "{}: \"crop_mode\" is \"{}\", expected center, squash or border",
            fields.where(), mode);
    p.resize = p.resize_height == p.resize_width ? Preprocess::Resize::kShortestEdge : Preprocess::Resize::kCover;
  }
  return p;
}

Preprocess PreprocessFromHuggingFace(const io::Json& preprocessor_config, int channels, ImageSize size) {
  const Fields fields(preprocessor_config, "preprocessor_config.json");
  CheckOverride(size);
  const ProcessorDefaults& defaults = DefaultsOf(fields);
  Require(!Switch(fields, "do_pad", false), "{}: \"do_pad\" is not supported", fields.where());
  Preprocess p;
  p.channels = channels;
  Switch(fields, "do_convert_rgb", true);  // its type only: an image is brought to the model's channels in any case
  if (Switch(fields, "do_resize", true)) {
    RefuseNull(fields, "size");
    RefuseNull(fields, "resample");
    SetHuggingFaceResize(fields, defaults, size, p);
    p.filter = HuggingFaceFilter(fields, defaults.resample);
  }
  if (Switch(fields, "do_center_crop", defaults.center_crop)) {
    RefuseNull(fields, "crop_size");
    Require(fields.Has("crop_size") || defaults.center_crop, "{}: \"do_center_crop\" needs \"crop_size\"",
            fields.where());
    p.crop = Preprocess::Crop::kHuggingFace;
    std::pair<int64_t, int64_t> crop = {kCropSize, kCropSize};
    if (fields.Has("crop_size")) crop = HeightAndWidth(fields, "crop_size");
    std::tie(p.crop_height, p.crop_width) = size.value_or(crop);
  }
  p.rescale = 1;
  if (Switch(fields, "do_rescale", true)) {
    RefuseNull(fields, "rescale_factor");
    p.rescale = fields.Number("rescale_factor", 1.0 / 255);
    Require(std::isfinite(p.rescale), "{}: \"rescale_factor\" is {}", fields.where(), p.rescale);
  }
  if (Switch(fields, "do_normalize", true)) {
    RefuseNull(fields, "image_mean");
    RefuseNull(fields, "image_std");
    p.mean = Channels(fields, "image_mean", *defaults.mean, channels);
    p.std = Deviations(fields, "image_std", *defaults.std, channels);
  }
  return p;
}

}  // namespace qkv::model
