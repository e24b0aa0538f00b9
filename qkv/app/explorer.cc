#include "qkv/app/explorer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "qkv/app/explorer_files.h"
#include "qkv/image/colour_map.h"
#include "qkv/image/encode.h"
#include "qkv/image/resize.h"
#include "qkv/report/page.h"
#include "qkv/report/template.h"

namespace qkv::app {
namespace {

constexpr int64_t kPhotoSide = 640;  // pixels

std::string Base64(const void* data, size_t size) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto* bytes = static_cast<const uint8_t*>(data);
  std::string text;
  text.reserve((size + 2) / 3 * 4);
  for (size_t i = 0; i < size; i += 3) {
    const size_t left = std::min<size_t>(3, size - i);
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) group = group << 8 | (j < left ? bytes[i + j] : 0);
    for (size_t j = 0; j < 4; ++j) text += j <= left ? kDigits[group >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

// The photo as PNG, at most kPhotoSide pixels wide and high.
std::string PhotoPng(const image::Image& original) {
  const int64_t height = original.height(), width = original.width(), longer = std::max(height, width);
  image::Image photo = image::ToChannels(original, 3);
  if (longer > kPhotoSide) {
    photo = image::Resize(photo, std::max<int64_t>(1, height * kPhotoSide / longer),
                          std::max<int64_t>(1, width * kPhotoSide / longer), image::Filter::kBicubic);
  }
  return image::EncodePng(photo);
}

// The global `page` of explorer.js.
std::string PageJson(const AttentionMaps& maps) {
  std::string colours;
  for (int i = 0; i < 256; ++i) {
    colours += image::Hex(image::ColourAt(image::ColourMap::kSequential, i / 255.0)).substr(1);
  }
  io::Json facts = Facts(maps);
  facts.erase("path");
  facts["title"] = maps.path == "-" ? "stdin" : std::filesystem::path(maps.path).filename().string();
  facts["colours"] = colours;
  std::string json = facts.dump(-1, ' ', /*ensure_ascii=*/true, io::Json::error_handler_t::replace);
  // A name must not end the script.
  for (size_t at = 0; (at = json.find('<', at)) != std::string::npos;) json.replace(at, 1, "\\u003c");
  return json;
}

}  // namespace

std::string ExplorerPage(const AttentionMaps& maps) {
  const int64_t N = maps.grid.tokens(), rows = maps.weights.size() / N;
  std::vector<uint8_t> bytes(static_cast<size_t>(maps.weights.size()));
  std::vector<float> scales(static_cast<size_t>(rows));
  for (int64_t row = 0; row < rows; ++row) {
    const float* from = maps.weights.data() + row * N;
    const float greatest = *std::max_element(from, from + N);
    scales[static_cast<size_t>(row)] = greatest;
    for (int64_t k = 0; k < N; ++k) {
      const float part = greatest > 0 ? std::max(0.0f, from[k] / greatest) : 0;
      bytes[static_cast<size_t>(row * N + k)] = static_cast<uint8_t>(std::lround(255 * std::sqrt(part)));
    }
  }
  const std::string photo = PhotoPng(maps.photo);
  return report::FillTemplate(ExplorerHtml(), {{"POLICY", report::PolicyTag(/*scripts=*/true)},
                                               {"STYLE", report::WithoutLastLineEnd(ExplorerCss())},
                                               {"WEIGHTS", Base64(bytes.data(), bytes.size())},
                                               {"SCALES", Base64(scales.data(), scales.size() * sizeof(float))},
                                               {"PAGE", PageJson(maps)},
                                               {"SCRIPT", report::WithoutLastLineEnd(ExplorerScript())},
                                               {"PHOTO", Base64(photo.data(), photo.size())}});
}

}  // namespace qkv::app
