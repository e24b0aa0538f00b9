#include "qkv/app/explorer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "qkv/app/explorer_files.h"
#include "qkv/app/json_line.h"
#include "qkv/image/colour_map.h"
#include "qkv/image/encode.h"
#include "qkv/image/resize.h"
#include "qkv/report/base64.h"
#include "qkv/report/page.h"
#include "qkv/report/template.h"
#include "qkv/report/text.h"

namespace qkv::app {
namespace {

constexpr int64_t kPhotoSide = 640;  // pixels

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

std::string TitleOf(const AttentionMaps& maps) {
  return maps.path == "-" ? "stdin" : std::filesystem::path(maps.path).filename().string();
}

// The global `page` of explorer.js.
std::string PageJson(const AttentionMaps& maps) {
  io::Json facts = Facts(maps);
  facts.erase("path");
  facts["title"] = TitleOf(maps);
  facts["colours"] = PageColours();
  return JsonInScript(facts);
}

}  // namespace

std::string PageColours() {
  std::string colours;
  for (int i = 0; i < 256; ++i) {
    colours += image::Hex(image::ColourAt(image::ColourMap::kSequential, i / 255.0)).substr(1);
  }
  return colours;
}

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
                                               {"TITLE", report::EscapeXml("Attention: " + TitleOf(maps))},
                                               {"VERSION", report::Version()},
                                               {"STYLE", report::WithoutLastLineEnd(ExplorerCss())},
                                               {"WEIGHTS", report::Base64(std::as_bytes(std::span(bytes)))},
                                               {"SCALES", report::Base64(std::as_bytes(std::span(scales)))},
                                               {"PAGE", PageJson(maps)},
                                               {"SCRIPT", report::WithoutLastLineEnd(ExplorerScript())},
                                               {"PHOTO", report::Base64(std::as_bytes(std::span(photo)))}});
}

}  // namespace qkv::app
