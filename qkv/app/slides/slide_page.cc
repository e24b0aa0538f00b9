#include "qkv/app/slides/slide_page.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "qkv/app/open/json_line.h"
#include "qkv/app/slides/slide_folder.h"
#include "qkv/app/slides/slide_html.h"
#include "qkv/core/error.h"
#include "qkv/core/file.h"
#include "qkv/image/encode.h"
#include "qkv/io/json.h"
#include "qkv/report/base64.h"
#include "qkv/report/text.h"

namespace qkv::app {
namespace {

// What the built page has in place of its title and its data.
constexpr std::string_view kPageTitle = "<title>Slide</title>", kPageData = "<!-- data -->";
constexpr size_t kTopTiles = 24;
constexpr int64_t kTopSide = 160;        // pixels of their pictures
constexpr size_t kDamagedInPage = 1000;  // parts that the page lists
constexpr float kTopQuality = 75;

std::string Base64Of(std::string_view bytes) { return report::Base64(std::as_bytes(std::span(bytes))); }
template <typename T>
std::string Base64Of(const std::vector<T>& values) {
  return report::Base64(std::as_bytes(std::span(values)));
}

// Grey: 0 where no tile is, else 1 + 254 · value.
std::string MapPng(const slide::HeatGrid& grid) {
  image::Image map{Tensor<uint8_t>::Uninitialised({grid.rows(), grid.columns(), 1})};
  for (int64_t i = 0; i < map.pixels.size(); ++i) {
    const float value = grid.values.data()[i];
    map.pixels.data()[i] =
        std::isnan(value) ? 0 : static_cast<uint8_t>(1 + std::lround(254 * std::clamp(value, 0.0F, 1.0F)));
  }
  return image::EncodePng(map);
}

// Tiles with the highest scores, of which none covers more than half of another's side.
std::vector<size_t> TopTiles(const slide::TileScores& tiles) {
  std::vector<size_t> order(tiles.scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return tiles.scores[a] > tiles.scores[b]; });
  std::vector<size_t> top;
  for (const size_t tile : order) {
    const auto covers = [&](size_t other) {
      const auto near = [&](size_t axis) {
        return 2 * std::abs(tiles.coords[tile][axis] - tiles.coords[other][axis]) < tiles.side;
      };
      return near(0) && near(1);
    };
    if (std::none_of(top.begin(), top.end(), covers)) top.push_back(tile);
    if (top.size() == kTopTiles) break;
  }
  return top;
}

std::string TilePicture(const slide::Slide& slide, const slide::TileScores& tiles, size_t tile) {
  image::Image picture;
  try {
    const auto& [x, y] = tiles.coords[tile];
    const int64_t side = std::min(kTopSide, tiles.side);
    slide::ReadReduced(slide, {x, y, tiles.side, tiles.side}, side, side, picture);
  } catch (const slide::DamagedRegion&) {
    return "";
  }
  return image::EncodeWebp(picture, kTopQuality);
}

io::Json FactsOf(const slide::Slide& slide, const slide::TileScores& tiles, const SlidePageOptions& options,
                 const slide::Pyramid& pyramid, const slide::HeatGrid& grid) {
  const slide::SlideFacts& facts = slide.facts();
  const auto [least, greatest] = std::minmax_element(tiles.scores.begin(), tiles.scores.end());
  io::Json json = {
      {"title", options.title},
      {"what", options.style.what},
      {"size", {facts.levels[0].width, facts.levels[0].height}},
      {"mpp", facts.mpp_x ? io::Json(*facts.mpp_x) : io::Json()},
      {"pyramid",
       {{"width", pyramid.width},
        {"height", pyramid.height},
        {"downsample", pyramid.downsample},
        {"finest", pyramid.finest},
        {"tile", slide::kPyramidTile}}},
      {"side", tiles.side},
      {"grid", {{"x", grid.x}, {"y", grid.y}, {"cell", grid.cell}, {"columns", grid.columns()}, {"rows", grid.rows()}}},
      {"ends", {*least, *greatest}},
      {"show", slide::HeatValuesName(options.style.values)},
      {"opacity", options.style.opacity},
      {"top", io::Json::array()},
      {"answers", io::Json::array()},
      {"damaged", io::Json::array()}};
  for (const size_t tile : TopTiles(tiles)) {
    json["top"].push_back({{"tile", tile}, {"picture", Base64Of(TilePicture(slide, tiles, tile))}});
  }
  for (const auto& [name, share] : options.answers) json["answers"].push_back(io::Json::array({name, share}));
  for (const slide::DamagedPart& part : pyramid.damaged) {
    if (json["damaged"].size() == kDamagedInPage) break;
    json["damaged"].push_back(
        {{"x", part.x}, {"y", part.y}, {"width", part.width}, {"height", part.height}, {"why", part.why}});
  }
  return json;
}

// The elements that web/app/src/slide/facts.ts reads.
std::string SlideElements(const slide::Slide& slide, const slide::TileScores& tiles, const SlidePageOptions& options,
                          const slide::Pyramid& pyramid) {
  std::string elements;
  const auto add = [&](std::string_view type, std::string_view id, const std::string& text) {
    elements.append("<script type=\"").append(type).append("\" id=\"").append(id).append("\">");
    elements.append(text).append("</script>\n");
  };
  for (const slide::HeatValues values : slide::kAllHeatValues) {
    const slide::HeatGrid grid = slide::MakeHeatGrid(tiles, values);
    if (values == slide::HeatValues::kRaw) {
      add("application/json", "facts", JsonInScript(FactsOf(slide, tiles, options, pyramid, grid)));
    }
    add("text/plain", slide::HeatValuesName(values), Base64Of(MapPng(grid)));
  }
  std::vector<int32_t> coords;  // below 1e9: CheckTiles
  coords.reserve(2 * tiles.coords.size());
  for (const auto& [x, y] : tiles.coords) {
    coords.push_back(static_cast<int32_t>(x));
    coords.push_back(static_cast<int32_t>(y));
  }
  add("text/plain", "coords", Base64Of(coords));
  add("text/plain", "scores", report::Base64(std::as_bytes(tiles.scores)));
  return elements;
}

}  // namespace

void RequireSlidePage() {
  Require(
      SlideHtml().find(kPageData) != std::string_view::npos,
      "heatmap: this program was built without Node.js, which builds its page; leave out --page, or build qkv again "
      "with Node.js and npm (on Debian: tools/setup.sh page)");
}

slide::Pyramid WriteSlidePage(const slide::Slide& slide, const slide::TileScores& tiles,
                              const SlidePageOptions& options, const std::filesystem::path& folder) {
  RequireSlidePage();
  slide::CheckTiles(tiles);
  const std::string_view page = SlideHtml();
  const size_t title = page.find(kPageTitle), data = page.find(kPageData);
  Require(title < data, "heatmap: the page has no {} before its data; build web/app again", kPageTitle);
  slide::Pyramid pyramid = slide::WritePyramid(slide, folder, options.pyramid);
  std::string html(page.substr(0, title));
  html += "<title>" + report::EscapeXml(options.title) + "</title>";
  html += page.substr(title + kPageTitle.size(), data - title - kPageTitle.size());
  html += SlideElements(slide, tiles, options, pyramid);
  html += page.substr(data + kPageData.size());
  WriteFile(folder / "index.html", html);
  return pyramid;
}

}  // namespace qkv::app
