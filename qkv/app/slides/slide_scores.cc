#include "qkv/app/slides/slide_scores.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "qkv/app/slides/slide_answers.h"
#include "qkv/app/slides/slide_maps.h"
#include "qkv/core/error.h"
#include "qkv/core/file.h"
#include "qkv/io/csv.h"

namespace qkv::app {
namespace {

constexpr size_t kMostScoreBytes = size_t{256} << 20;  // of a table: some millions of tiles

// A row of the head's weights, or nothing: all, as ShownAttention.
std::optional<int64_t> RowOf(const mil::Head& head, const std::string& branch) {
  if (branch.empty()) return std::nullopt;
  const auto named = std::find(head.classes().begin(), head.classes().end(), branch);
  if (named != head.classes().end()) return named - head.classes().begin();
  int64_t row = 0;
  const auto [end, error] = std::from_chars(branch.data(), branch.data() + branch.size(), row);
  Require(error == std::errc() && end == branch.data() + branch.size(),
          "heatmap: --branch {}: expected a class of the head or a number", branch);
  return row;
}

template <typename T>
T Parse(const std::string& text, std::string_view column, const std::string& file, size_t line) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  // Tables of other programs have coordinates such as 512.0.
  const bool fits = error == std::errc() && end == text.data() + text.size() && std::isfinite(value) &&
                    (!std::is_integral_v<T> || (std::abs(value) < 1e9 && value == std::floor(value)));
  Require(fits, "heatmap: {}, line {}: expected a {}number as {}, got {}", file, line,
          std::is_integral_v<T> ? "whole " : "", column, text);
  return static_cast<T>(value);
}

}  // namespace

int64_t TileSide(const slide::FeatureFile& file, const slide::SlideFacts& facts, std::optional<int64_t> side) {
  if (side) return *side;
  const auto number = [&](const std::string& name) { return slide::FindNumber(file.coord_attributes, name); };
  std::optional<double> found = number("patch_size_level0");
  const std::optional<double> size = number("patch_size"), level = number("patch_level");
  if (!found && size && level && *level >= 0 && *level < static_cast<double>(facts.levels.size())) {
    found = *size * facts.levels[static_cast<size_t>(*level)].downsample;
  }
  Require(found && *found >= 1 && *found < 1e9,
          "heatmap: the file does not say how large its tiles are (patch_size_level0, or patch_size and patch_level); "
          "--tile-side gives their side in pixels of level 0");
  return std::llround(*found);
}

SlideScores ScoreTiles(slide::FeatureFile file, int64_t side, const mil::Head& head, const std::string& branch) {
  Require(!file.coords.empty(), "heatmap: the file has no tiles");
  const mil::Answer answer = head.Forward(file.features, file.coords, side);
  SlideScores scores{
      .scores = ShownAttention(answer, RowOf(head, branch)), .side = side, .answers = Probabilities(head, answer)};
  scores.coords = std::move(file.coords);
  return scores;
}

void CheckSlideOfScores(const SlideScores& scores, const slide::Attributes& attributes,
                        const slide::SlideFacts& facts) {
  const slide::Level& whole = facts.levels.at(0);
  const std::optional<double> width = slide::FindNumber(attributes, "level0_width"),
                              height = slide::FindNumber(attributes, "level0_height");
  Require(
      (!width || *width == static_cast<double>(whole.width)) &&
          (!height || *height == static_cast<double>(whole.height)),
      "heatmap: the vectors are of a slide of {} x {} pixels, this one has {} x {}; name the slide that they are of",
      width.value_or(whole.width), height.value_or(whole.height), whole.width, whole.height);
  for (const auto& [x, y] : scores.coords) {
    Require(x < whole.width && y < whole.height && x > -scores.side && y > -scores.side,
            "heatmap: the tile at {}, {} lies outside of the slide, which has {} x {} pixels; expected coordinates of "
            "its level 0",
            x, y, whole.width, whole.height);
  }
}

SlideScores ReadScores(const std::filesystem::path& file, int64_t side) {
  const std::string text = ReadFile(file, kMostScoreBytes), name = file.string();
  io::CsvReader reader(text, name);
  io::CsvRecord record;
  Require(reader.Next(&record), "heatmap: {}: empty, expected the columns x, y and score", name);
  constexpr std::array<std::string_view, 3> kColumns = {"x", "y", "score"};
  std::array<size_t, 3> places{};
  for (size_t i = 0; i < 3; ++i) {
    const auto found = std::find(record.fields.begin(), record.fields.end(), kColumns[i]);
    Require(found != record.fields.end(),
            "heatmap: {}: expected the columns x, y and score in its first line, there is no {}", name, kColumns[i]);
    places[i] = static_cast<size_t>(found - record.fields.begin());
  }
  const size_t least = *std::max_element(places.begin(), places.end()) + 1;
  SlideScores scores{.side = side};
  while (reader.Next(&record)) {
    const auto line = static_cast<size_t>(record.line);
    Require(record.fields.size() >= least, "heatmap: {}, line {}: expected x, y and score, got {} fields", name, line,
            record.fields.size());
    scores.coords.push_back({Parse<int64_t>(record.fields[places[0]], "x", name, line),
                             Parse<int64_t>(record.fields[places[1]], "y", name, line)});
    scores.scores.push_back(Parse<float>(record.fields[places[2]], "score", name, line));
  }
  slide::CheckTiles(scores.tiles());
  return scores;
}

}  // namespace qkv::app
