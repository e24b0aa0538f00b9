// Hugging Face's image processors (PIL backend): preprocessor_config.json to image::Preprocess, and back.
#include <algorithm>
#include <array>
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

const std::vector<float> kClipMean = {0.48145466f, 0.4578275f, 0.40821073f};
const std::vector<float> kClipStd = {0.26862954f, 0.26130258f, 0.27577711f};
const std::vector<float> kHalf = {0.5f, 0.5f, 0.5f};
const std::vector<float> kImageNetOfHfMean = {0.485f, 0.456f, 0.406f}, kImageNetOfHfStd = {0.229f, 0.224f, 0.225f};

// In the order of image::Filter.
constexpr int kPillowFilters[] = {0, 4, 2, 5, 3, 1};

/// The class-level defaults of a Hugging Face image processor.
struct ProcessorDefaults {
  std::string_view name;
  int64_t resample;
  bool shortest_edge;  // a size given as one number is the shortest edge, not a square
  int64_t size;
  bool center_crop;
  const std::vector<float>*mean, *std;
  int64_t longest_edge = 0;  // YOLOS and EoMT: the longer edge is limited
  int64_t multiple = 1;      // YOLOS: sides are multiples of this
  bool squares = false;      // EoMT: images are padded, or split into squares
};
constexpr int64_t kCropSize = 224;  // default of all classes that crop

const std::array kProcessors = {
    ProcessorDefaults{"ViT", 2, false, 224, false, &kHalf, &kHalf},
    ProcessorDefaults{"DeiT", 3, false, 256, true, &kHalf, &kHalf},
    ProcessorDefaults{"Beit", 3, false, 224, false, &kHalf, &kHalf},
    ProcessorDefaults{"Bit", 3, true, 224, true, &kClipMean, &kClipStd},
    ProcessorDefaults{"DINOv3ViT", 2, false, 224, false, &kImageNetOfHfMean, &kImageNetOfHfStd},
    ProcessorDefaults{"CLIP", 3, true, 224, true, &kClipMean, &kClipStd},
    ProcessorDefaults{"Siglip", 3, false, 224, false, &kHalf, &kHalf},
    ProcessorDefaults{"Yolos", 2, true, 800, false, &kImageNetOfHfMean, &kImageNetOfHfStd, /*longest_edge=*/1333,
                      /*multiple=*/16},
    ProcessorDefaults{"Eomt", 2, true, 640, false, &kImageNetOfHfMean, &kImageNetOfHfStd, /*longest_edge=*/640,
                      /*multiple=*/1, /*squares=*/true},
};

/// "ViTImageProcessor", "ViTImageProcessorFast", "ViTFeatureExtractor", …
const ProcessorDefaults& FindProcessorDefaults(const io::Fields& fields) {
  const std::string_view key = fields.Has("image_processor_type") ? "image_processor_type" : "feature_extractor_type";
  const std::string type = fields.String(key, "ViTImageProcessor");
  for (const ProcessorDefaults& defaults : kProcessors) {
    if (!type.starts_with(defaults.name)) continue;
    const std::string_view rest = std::string_view(type).substr(defaults.name.size());
    for (const char* ending : {"ImageProcessor", "ImageProcessorFast", "ImageProcessorPil", "FeatureExtractor"})
      if (rest == ending) return defaults;
  }
  Fail(
      "{}: \"{}\" is \"{}\", expected ViTImageProcessor, DeiTImageProcessor, BeitImageProcessor, BitImageProcessor, "
      "DINOv3ViTImageProcessor, CLIPImageProcessor, SiglipImageProcessor, YolosImageProcessor or EomtImageProcessor",
      fields.where(), key, type);
}

/// A switch of an image processor; as in the library, null turns the step off.
bool Switch(const io::Fields& fields, std::string_view key, bool otherwise) {
  return fields.Bool(key, fields.json().contains(key) ? false : otherwise);
}

/// As in the library, null is rejected for a value that an enabled step needs.
void RefuseNull(const io::Fields& fields, std::string_view key) {
  Require(fields.Has(key) || !fields.json().contains(key), "{}: \"{}\" is null", fields.where(), key);
}

Filter HuggingFaceFilter(const io::Fields& fields, int64_t otherwise) {
  // Pillow's numbers.
  constexpr std::array kFilters = {Filter::kNearest, Filter::kLanczos, Filter::kBilinear,
                                   Filter::kBicubic, Filter::kBox,     Filter::kHamming};
  const int64_t resample = fields.Int("resample", otherwise);
  Require(resample >= 0 && resample < static_cast<int64_t>(kFilters.size()),
          "{}: \"resample\" is {}, expected one of Pillow's filters, 0 to 5", fields.where(), resample);
  return kFilters[static_cast<size_t>(resample)];
}

/// A size as {"height", "width"}, [height, width] or one number for both; `key` must exist.
std::pair<int64_t, int64_t> HeightAndWidth(const io::Fields& fields, std::string_view key) {
  std::pair<int64_t, int64_t> size;
  if (fields.json().find(key)->is_object()) {
    const io::Fields object = fields.Object(key);
    for (const auto& [name, value] : object.json().items())
      Require(name == "height" || name == "width" || value.is_null(),
              "{}: \"{}\" has \"{}\", expected height and width", fields.where(), key, name);
    size = {object.RequiredInt("height"), object.RequiredInt("width")};
  } else {
    size = fields.Size(key, {});
  }
  return {Side(fields, key, size.first), Side(fields, key, size.second)};
}

void SetHuggingFaceResize(const io::Fields& fields, const ProcessorDefaults& defaults, ImageSize override_size,
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
    const io::Fields object = fields.Object("size");
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

// YOLOS's "size": {"shortest_edge", "longest_edge"}, or one number beside "max_size".
void SetEdges(const io::Fields& fields, const ProcessorDefaults& defaults, ImageSize override_size, Preprocess& p) {
  p.resize = Preprocess::Resize::kEdges;
  p.resize_multiple = defaults.multiple;
  int64_t shortest = defaults.size, longest = defaults.longest_edge;
  if (fields.Has("size") && fields.json().find("size")->is_object()) {
    const io::Fields object = fields.Object("size");
    for (const auto& [name, value] : object.json().items()) {
      Require(name == "shortest_edge" || name == "longest_edge" || value.is_null(),
              "{}: \"size\" has \"{}\", expected shortest_edge and longest_edge", fields.where(), name);
    }
    shortest = object.RequiredInt("shortest_edge"), longest = object.RequiredInt("longest_edge");
  } else if (fields.Has("size")) {
    shortest = fields.RequiredInt("size"), longest = fields.Int("max_size", longest);
  }
  p.resize_height = Side(fields, "size", shortest), p.resize_width = Side(fields, "size", longest);
  if (!override_size) return;
  p.resize = Preprocess::Resize::kExact;
  std::tie(p.resize_height, p.resize_width) = *override_size;
}

// EoMT: images are padded to a square, or split into squares. "size": {"shortest_edge", "longest_edge"}, of which the
// latter may be null.
void SetSquares(const io::Fields& fields, const ProcessorDefaults& defaults, ImageSize override_size, Preprocess& p) {
  int64_t shortest = defaults.size, longest = defaults.longest_edge;
  if (fields.Has("size")) {
    Require(fields.json().find("size")->is_object(), "{}: \"size\": expected shortest_edge and longest_edge",
            fields.where());
    const io::Fields object = fields.Object("size");
    for (const auto& [name, value] : object.json().items()) {
      Require(name == "shortest_edge" || name == "longest_edge" || value.is_null(),
              "{}: \"size\" has \"{}\", expected shortest_edge and longest_edge", fields.where(), name);
    }
    shortest = object.RequiredInt("shortest_edge"), longest = object.Int("longest_edge", 0);
  }
  if (override_size) {
    Require(override_size->first == override_size->second, "preprocess: EoMT takes squares, got {} x {} pixels",
            override_size->second, override_size->first);
    shortest = override_size->first, longest = longest > 0 ? shortest : 0;
  }
  shortest = Side(fields, "size", shortest);
  p.resize = longest > 0 ? Preprocess::Resize::kEdges : Preprocess::Resize::kShortestEdge;
  p.resize_height = shortest, p.resize_width = longest > 0 ? Side(fields, "size", longest) : shortest;
  const bool pads = Switch(fields, "do_pad", false);
  p.squares = Switch(fields, "do_split_image", false);
  Require(!p.squares || longest == 0, "{}: \"do_split_image\" with a \"longest_edge\" is not supported",
          fields.where());
  Require(!pads || p.squares || longest == shortest,
          "{}: \"do_pad\" needs a \"longest_edge\" that equals \"shortest_edge\", got {} and {}", fields.where(),
          longest, shortest);
  if (!pads && !p.squares) return;
  // Commands that do not go through all squares use the crop: the middle square.
  p.crop = p.squares ? Preprocess::Crop::kHuggingFace : Preprocess::Crop::kCorner;
  p.crop_height = p.crop_width = shortest;
}

std::vector<double> Written(const std::vector<float>& values) {
  std::vector<double> result;
  std::transform(values.begin(), values.end(), std::back_inserter(result), ShortestDecimalValue);
  return result;
}

io::Json SizeObject(int64_t height, int64_t width) { return {{"height", height}, {"width", width}}; }

}  // namespace

Preprocess PreprocessFromHuggingFace(const io::Fields& fields, int channels, ImageSize size) {
  CheckOverride(size);
  const ProcessorDefaults& defaults = FindProcessorDefaults(fields);
  // YOLOS pads images to the largest of their batch, which qkv does not need: each image is computed as if alone.
  const bool pads = Switch(fields, "do_pad", defaults.longest_edge > 0 && !defaults.squares);
  Require(!defaults.squares || Switch(fields, "do_resize", true), "{}: \"do_resize\" is off, which EoMT needs",
          fields.where());
  Require(!pads || defaults.longest_edge > 0, "{}: \"do_pad\" is true, which is not supported", fields.where());
  const bool has_size = fields.Has("pad_size");  // counts only where "do_pad" is on
  Require(!pads || !has_size, "{}: \"pad_size\" is {}, which is not supported", fields.where(),
          fields.Value("pad_size").dump().substr(0, 100));
  Require(!Switch(fields, "use_square_size", false),
          R"({}: "use_square_size" is true, which is not supported; write "size" as {{"height": …, "width": …}})",
          fields.where());
  Preprocess p;
  p.channels = channels;
  Switch(fields, "do_convert_rgb", true);  // checks the type only: images are always converted to the model's channels
  if (Switch(fields, "do_resize", true)) {
    RefuseNull(fields, "size");
    RefuseNull(fields, "resample");
    (defaults.squares            ? SetSquares
     : defaults.longest_edge > 0 ? SetEdges
                                 : SetHuggingFaceResize)(fields, defaults, size, p);
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

io::Json PreprocessToHuggingFace(const Preprocess& p, std::vector<std::string>* notes) {
  const bool crops = p.crop != Preprocess::Crop::kNone && !IsFullCrop(p);
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
    case Resize::kEdges:
      json["image_processor_type"] = "YolosImageProcessor";
      json["size"] = {{"shortest_edge", p.resize_height}, {"longest_edge", p.resize_width}};
      json.erase("do_center_crop");
      json["do_pad"] = true;
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
  if (crops && p.crop == Preprocess::Crop::kTorchvision && HasOddCropMargin(p)) {
    notes->push_back("where a crop's margin is odd, Hugging Face's may begin one pixel further left or up");
  }
  return json;
}

void ChangeHfPreprocess(const Description& description, const io::Json& settings, const ModelHints& given,
                        ConfigFiles* files) {
  const int64_t channels = description.config.channels;
  io::Json json = description.preprocess_json;
  json.update(settings);
  if (!given.mean.empty()) json["image_mean"] = PerChannel(given.mean, channels, "--mean");
  if (!given.std.empty()) json["image_std"] = PerChannel(given.std, channels, "--std");
  if (!given.mean.empty() || !given.std.empty()) json["do_normalize"] = true;
  if (given.crop_pct > 0) {
    // Hugging Face has no key for it: the sizes of the resized image and of the crop imply it.
    Preprocess p = PreprocessFromHuggingFace(io::Fields(json, description.preprocess_file), static_cast<int>(channels));
    if (p.crop == Preprocess::Crop::kNone) {
      p.crop = Preprocess::Crop::kHuggingFace;
      p.crop_height = p.resize_height, p.crop_width = p.resize_width;
    }
    p.resize = Resize::kShortestEdge;
    const auto longer = static_cast<double>(std::max(p.crop_height, p.crop_width));
    p.resize_height = p.resize_width = static_cast<int64_t>(std::floor(longer / given.crop_pct));
    std::vector<std::string> ignored;
    json = PreprocessToHuggingFace(p, &ignored);
  }
  files->preprocessor = std::move(json);
}

}  // namespace qkv::model
