#include "cli/attend_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cli/explorer_files.h"
#include "qkv/image/colour_map.h"
#include "qkv/io/json.h"
#include "qkv/report/page.h"
#include "qkv/report/template.h"

namespace qkv::cli {
namespace {

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

}  // namespace

std::string Html(const AttendPage& page) {
  const int64_t N = page.grid.tokens(), rows = page.weights.size() / N;
  std::vector<uint8_t> bytes(static_cast<size_t>(page.weights.size()));
  std::vector<float> scales(static_cast<size_t>(rows));
  for (int64_t row = 0; row < rows; ++row) {
    const float* from = page.weights.data() + row * N;
    const float greatest = *std::max_element(from, from + N);
    scales[static_cast<size_t>(row)] = greatest;
    for (int64_t k = 0; k < N; ++k) {
      const float part = greatest > 0 ? std::max(0.0f, from[k] / greatest) : 0;
      bytes[static_cast<size_t>(row * N + k)] = static_cast<uint8_t>(std::lround(255 * std::sqrt(part)));
    }
  }
  std::string colours;
  for (int i = 0; i < 256; ++i)
    colours += image::Hex(image::ColourAt(image::ColourMap::kSequential, i / 255.0)).substr(1);
  const bool token = page.query.kind == inspect::Query::Kind::kToken;
  const io::Json facts = {{"title", page.title},
                          {"model", page.model},
                          {"photo", {page.photo_height, page.photo_width}},
                          {"where", {page.where.top, page.where.left, page.where.height, page.where.width}},
                          {"grid", {page.grid.height, page.grid.width}},
                          {"prefix", page.grid.prefix},
                          {"query", token ? page.query.token : -1},
                          {"layers", page.layers},
                          {"heads", page.heads},
                          {"colours", colours}};
  std::string json = facts.dump(-1, ' ', /*ensure_ascii=*/true, io::Json::error_handler_t::replace);
  // A name must not end the script.
  for (size_t at = 0; (at = json.find('<', at)) != std::string::npos;) json.replace(at, 1, "\\u003c");
  return report::FillTemplate(ExplorerHtml(), {{"POLICY", report::PolicyTag(/*scripts=*/true)},
                                               {"STYLE", report::WithoutLastLineEnd(ExplorerCss())},
                                               {"WEIGHTS", Base64(bytes.data(), bytes.size())},
                                               {"SCALES", Base64(scales.data(), scales.size() * sizeof(float))},
                                               {"PAGE", json},
                                               {"SCRIPT", report::WithoutLastLineEnd(ExplorerScript())},
                                               {"PHOTO", Base64(page.photo_png.data(), page.photo_png.size())}});
}

}  // namespace qkv::cli
