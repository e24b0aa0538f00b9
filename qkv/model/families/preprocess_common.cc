#include "qkv/model/families/preprocess_common.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "qkv/core/error.h"
#include "qkv/model/config/preprocess_writer.h"

namespace qkv::model {

using image::Preprocess;
namespace {
using Resize = Preprocess::Resize;
}  // namespace

int64_t Side(const io::Fields& fields, std::string_view key, int64_t side) {
  Require(side > 0 && side <= INT32_MAX, "{}: \"{}\" is {}, expected a number of pixels", fields.where(), key, side);
  return side;
}

std::vector<float> Channels(const io::Fields& fields, std::string_view key, const std::vector<float>& otherwise,
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

std::vector<float> Deviations(const io::Fields& fields, std::string_view key, const std::vector<float>& otherwise,
                              int channels) {
  std::vector<float> values = Channels(fields, key, otherwise, channels);
  for (const float x : values) Require(x != 0, "{}: \"{}\" has a zero", fields.where(), key);
  return values;
}

void CheckOverride(ImageSize size) {
  if (!size) return;
  Require(size->first > 0 && size->second > 0 && size->first <= INT32_MAX && size->second <= INT32_MAX,
          "preprocess: an input size of {} x {} pixels", size->second, size->first);
}

bool IsFullCrop(const Preprocess& p) {
  return p.resize == Resize::kExact && p.crop_height == p.resize_height && p.crop_width == p.resize_width;
}

bool HasOddCropMargin(const Preprocess& p) {
  if (p.crop == Preprocess::Crop::kNone || IsFullCrop(p)) return false;
  return p.resize != Resize::kExact || (p.resize_height - p.crop_height) % 2 != 0 ||
         (p.resize_width - p.crop_width) % 2 != 0;
}

double ShortestDecimalValue(float x) { return std::stod(fmt::format("{}", x)); }

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

std::vector<double> PerChannel(const std::vector<double>& given, int64_t channels, std::string_view what) {
  for (const double value : given) {
    Require(value >= 0 && value <= 1, "{}: {}, expected numbers between 0 and 1{}", what, value,
            value > 1 && value < 256 ? "; divide by 255 what is of pixels from 0 to 255" : "");
  }
  if (given.size() == 1) return std::vector<double>(static_cast<size_t>(std::max<int64_t>(1, channels)), given[0]);
  Require(std::ssize(given) == channels, "{}: {} values, the model's images have {} channels", what, given.size(),
          channels);
  return given;
}

}  // namespace qkv::model
