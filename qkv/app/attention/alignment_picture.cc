#include "qkv/app/attention/alignment_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "qkv/core/error.h"
#include "qkv/image/colour_map.h"
#include "qkv/image/draw.h"

namespace qkv::app {
namespace {

constexpr image::Colour kGround = {255, 255, 255}, kText = {40, 40, 40}, kFaint = {110, 110, 110};
constexpr int kTitleSize = 15, kLeastSize = 10, kGreatestSize = 15;  // of text, pixels
constexpr int64_t kEdge = 14, kSpace = 6;                            // around everything, and beside names
constexpr int64_t kBarWidth = 14, kGreatestName = 180;
// Sides of a cell: between them names can be read, and from kNumbered on there is room for a number.
constexpr int64_t kNamedCell = 12, kGreatestCell = 40, kNumbered = 30, kGreatestSheetCell = 16;
// A matrix alone and a sheet are about so wide and high, unless names need more.
constexpr int64_t kMatrixSide = 900, kAlignmentSheetWidth = 3000, kAlignmentSheetHeight = 6000;
constexpr int64_t kGreatestPixels = int64_t{64} << 20;
// Weights from here on have cells so bright that numbers are dark.
constexpr double kBright = 0.55;

// Where everything is, in pixels.
struct Layout {
  int64_t cell = 1, gap = 0;       // side of a cell, and the line between cells
  bool named = true;               // the tokens' names are drawn
  int size = kLeastSize;           // of their letters
  int64_t names = 0, heads = 0;    // width of the rows' names, height of the columns'
  int64_t left = 0, top = 0;       // of the first matrix
  int64_t across = 0, down = 0;    // from one matrix to the next
  int64_t width = 0, height = 0;   // of the picture
  int64_t bar = 0, bar_width = 0;  // left edge of the colour bar with its numbers
};

// The greatest weight in the rows from `first` on.
double GreatestWeight(const TextAttention& a, int64_t first) {
  float greatest = 0;
  for (int64_t l = 0; l < std::ssize(a.layers); ++l) {
    for (int64_t h = 0; h < std::ssize(a.heads); ++h) {
      const View<const float> matrix = a.Matrix(l, h);
      const float* const end = matrix.data() + matrix.size();
      greatest = std::max(greatest, *std::max_element(matrix.row(first), end));
    }
  }
  return greatest;
}

// The weight of the brightest colour, and how the bar names it.
struct Scale {
  double greatest = 0;
  std::string end;
};

int64_t WidestName(const std::vector<std::string>& names, int size) {
  int64_t widest = 0;
  for (const std::string& name : names) widest = std::max(widest, image::TextWidth(name, size));
  return std::min(widest, kGreatestName);
}

std::string Percent(double share) { return fmt::format("{:.{}f} %", 100 * share, share < 0.0995 ? 1 : 0); }

// A decoder's first token attends only to itself: its 100 % does not set the scale, and the bar's end says so.
Scale ScaleOf(const TextAttention& a) {
  const bool first_apart = a.part == inspect::PartKind::kDecoder && a.rows.size() > 1;
  const double greatest = GreatestWeight(a, first_apart ? 1 : 0);
  return {greatest, (GreatestWeight(a, 0) > greatest ? "≥ " : "") + Percent(greatest)};
}

Layout Arrange(const TextAttention& a, std::string_view title, const std::string& bar_end) {
  const int64_t L = std::ssize(a.layers), H = std::ssize(a.heads), T = std::ssize(a.rows), N = std::ssize(a.columns);
  const bool sheet = L * H > 1;
  Layout at;
  if (sheet) {
    at.cell = std::clamp<int64_t>(std::min(kAlignmentSheetWidth / (H * N), kAlignmentSheetHeight / (L * T)), 1,
                                  kGreatestSheetCell);
    at.named = at.cell >= kNamedCell;
  } else {
    at.cell = std::clamp(kMatrixSide / std::max(T, N), kNamedCell, kGreatestCell);
  }
  at.gap = at.cell >= kNamedCell ? 1 : 0;
  at.size = static_cast<int>(std::clamp<int64_t>(at.cell * 3 / 5, kLeastSize, kGreatestSize));
  if (at.named) {
    at.names = WidestName(a.rows, at.size) + kSpace;
    at.heads = WidestName(a.columns, at.size) + kSpace;
  }
  const int64_t line = image::TextHeight(kTitleSize);
  const int64_t layers = sheet ? WidestName(a.layers, kTitleSize) + 2 * kSpace : 0;
  at.left = kEdge + layers + at.names;
  at.top = kEdge + line + kSpace + (sheet ? line + kSpace : 0) + at.heads;
  at.across = N * at.cell + (sheet ? std::max(kEdge, 2 * at.cell) : 0);
  at.down = T * at.cell + (sheet ? std::max(kEdge, 2 * at.cell) : 0);
  at.bar = at.left + H * at.across + (sheet ? 0 : kEdge);
  at.bar_width = kBarWidth + kSpace + image::TextWidth(bar_end, kTitleSize);
  at.width = std::max(at.bar + at.bar_width, kEdge + image::TextWidth(title, kTitleSize)) + kEdge;
  at.height = at.top + L * at.down + kEdge;
  return at;
}

image::Colour ColourOf(double share) { return image::ColourAt(image::ColourMap::kSequential, share); }

void DrawCells(image::Image& picture, View<const float> matrix, int64_t top, int64_t left, double greatest,
               const Layout& at) {
  const bool numbered = at.cell >= kNumbered;
  for (int64_t t = 0; t < matrix.dim(0); ++t) {
    for (int64_t n = 0; n < matrix.dim(1); ++n) {
      const double weight = matrix.row(t)[n], share = greatest > 0 ? weight / greatest : 0;
      const int64_t y = top + t * at.cell, x = left + n * at.cell, side = at.cell - at.gap;
      image::Fill(picture, y, x, side, side, ColourOf(share));
      const std::string number = fmt::format("{:.0f}", 100 * weight);
      if (!numbered || number == "0") continue;
      image::DrawText(picture, number, y + (side - image::TextHeight(kLeastSize + 1)) / 2,
                      x + (side - image::TextWidth(number, kLeastSize + 1)) / 2, kLeastSize + 1,
                      share > kBright ? kText : kGround);
    }
  }
}

void DrawNames(image::Image& picture, const TextAttention& a, const Layout& at) {
  const int64_t lower = (at.cell - at.gap - image::TextHeight(at.size)) / 2;
  for (size_t h = 0; h < a.heads.size(); ++h) {
    for (size_t n = 0; n < a.columns.size(); ++n) {
      image::DrawUprightText(picture, image::ShortenText(a.columns[n], at.size, kGreatestName), at.top - kSpace,
                             at.left + static_cast<int64_t>(h) * at.across + static_cast<int64_t>(n) * at.cell + lower,
                             at.size, kText);
    }
  }
  for (size_t l = 0; l < a.layers.size(); ++l) {
    for (size_t t = 0; t < a.rows.size(); ++t) {
      const std::string name = image::ShortenText(a.rows[t], at.size, kGreatestName);
      image::DrawText(picture, name,
                      at.top + static_cast<int64_t>(l) * at.down + static_cast<int64_t>(t) * at.cell + lower,
                      at.left - kSpace - image::TextWidth(name, at.size), at.size, kText);
    }
  }
}

// The colours from the greatest weight, at the top, to 0.
void DrawBar(image::Image& picture, const std::string& end, const Layout& at) {
  const int64_t line = image::TextHeight(kTitleSize);
  const int64_t height = std::clamp<int64_t>(at.height - at.top - kEdge, 3 * line, 400);
  for (int64_t y = 0; y < height; ++y) {
    const double share = 1 - static_cast<double>(y) / static_cast<double>(std::max<int64_t>(1, height - 1));
    image::Fill(picture, at.top + y, at.bar, 1, kBarWidth, ColourOf(share));
  }
  const int64_t x = at.bar + kBarWidth + kSpace;
  image::DrawText(picture, end, at.top - line / 4, x, kTitleSize, kFaint);
  image::DrawText(picture, "0 %", at.top + height - line * 3 / 4, x, kTitleSize, kFaint);
}

}  // namespace

image::Image AlignmentPicture(const TextAttention& a) {
  const bool sheet = a.layers.size() * a.heads.size() > 1;
  const std::string fusion = a.heads[0].starts_with("head") ? a.heads[0] : a.heads[0] + " of the heads";
  const std::string title = Describe(a) + (sheet ? "" : fmt::format(", {}, {}", a.layers[0], fusion));
  const auto [greatest, bar_end] = ScaleOf(a);
  Layout at = Arrange(a, title, bar_end);
  // The bar is below short matrices, too.
  at.height = std::max(at.height, at.top + 3 * image::TextHeight(kTitleSize) + kEdge);
  Require(at.width * at.height <= kGreatestPixels,
          "attend: the picture of {} blocks, {} heads and {} × {} tokens would have {} × {} pixels; choose fewer by "
          "--layer or --head, a shorter text, or write .html or .npy",
          a.layers.size(), a.heads.size(), a.rows.size(), a.columns.size(), at.width, at.height);
  image::Image picture{Tensor<uint8_t>::Uninitialised({at.height, at.width, 3})};
  image::Fill(picture, 0, 0, at.height, at.width, kGround);
  image::DrawText(picture, title, kEdge, kEdge, kTitleSize, kText);
  const int64_t line = image::TextHeight(kTitleSize);
  for (size_t h = 0; sheet && h < a.heads.size(); ++h) {
    image::DrawText(picture, a.heads[h], kEdge + line + kSpace, at.left + static_cast<int64_t>(h) * at.across,
                    kTitleSize, kText);
  }
  for (size_t l = 0; sheet && l < a.layers.size(); ++l) {
    image::DrawText(picture, a.layers[l], at.top + static_cast<int64_t>(l) * at.down, kEdge, kTitleSize, kText);
  }
  if (at.named) DrawNames(picture, a, at);
  for (int64_t l = 0; l < std::ssize(a.layers); ++l) {
    for (int64_t h = 0; h < std::ssize(a.heads); ++h) {
      DrawCells(picture, a.Matrix(l, h), at.top + l * at.down, at.left + h * at.across, greatest, at);
    }
  }
  DrawBar(picture, bar_end, at);
  return picture;
}

}  // namespace qkv::app
