#include "qkv/app/explorer.h"

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "qkv/app/explorer_files.h"
#include "qkv/app/json_line.h"
#include "qkv/app/thumbnail.h"
#include "qkv/app/weight_bytes.h"
#include "qkv/image/colour_map.h"
#include "qkv/report/base64.h"
#include "qkv/report/page.h"
#include "qkv/report/template.h"
#include "qkv/report/text.h"

namespace qkv::app {
namespace {

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
  WeightBytes(View<const float>(maps.weights.data(), {rows, N}), bytes.data(), scales.data());
  const std::string photo = PagePhoto(maps.photo);
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
