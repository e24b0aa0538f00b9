#include "qkv/image/draw.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "qkv/core/work.h"
#include "qkv/image/runs.h"

namespace qkv::image {
namespace {

// Brightness factor of the photo outside the map.
constexpr double kDimmed = 0.4;
// Colours of a contact sheet.
constexpr Colour kPaper = {255, 255, 255}, kInk = {40, 40, 40};
constexpr int64_t kGap = 4, kMargin = 10;
constexpr int kTextSize = 15;

// Steps, for Spend, of a pixel of a map, interpolated from sixteen cells.
constexpr int64_t kStepsOfStretching = 16;

// Up to four cells along an axis, with weights.
struct Cells {
  std::array<int64_t, 4> index{};
  std::array<double, 4> weight{};
};

// at: in cells; 0.5 is the centre of the first cell.
Cells CellsAt(double at, int64_t count, Upsampling upsampling) {
  Cells cells;
  const auto keep = [&](size_t i, double index, double weight) {
    cells.index[i] = std::clamp<int64_t>(static_cast<int64_t>(index), 0, count - 1);
    cells.weight[i] = weight;
  };
  const double base = std::floor(at - 0.5), t = at - 0.5 - base;
  switch (upsampling) {
    case Upsampling::kNearest:
      keep(0, std::floor(at), 1);
      break;
    case Upsampling::kBilinear:
      keep(0, base, 1 - t);
      keep(1, base + 1, t);
      break;
    case Upsampling::kBicubic:
      keep(0, base - 1, t * (-0.5 + t * (1 - 0.5 * t)));
      keep(1, base, 1 + t * t * (1.5 * t - 2.5));
      keep(2, base + 1, t * (0.5 + t * (2 - 1.5 * t)));
      keep(3, base + 2, t * t * (0.5 * t - 0.5));
      break;
  }
  return cells;
}

uint8_t Blend(double a, double b, double share_of_b) {
  return static_cast<uint8_t>(std::lround(std::clamp(a + (b - a) * share_of_b, 0.0, 255.0)));
}

}  // namespace

Tensor<float> Stretch(View<const float> grid, const Rect& where, int64_t height, int64_t width, Upsampling upsampling) {
  const int64_t rows = grid.dim(0), columns = grid.dim(1);
  Require(rows > 0 && columns > 0 && where.height > 0 && where.width > 0, "stretch: an empty map");
  auto stretched = Tensor<float>::Uninitialised({height, width});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<Cells> across(static_cast<size_t>(width));
  for (int64_t x = 0; x < width; ++x) {
    const double at = (static_cast<double>(x) + 0.5 - where.left) / where.width;
    if (at >= 0 && at < 1)
      across[static_cast<size_t>(x)] = CellsAt(at * static_cast<double>(columns), columns, upsampling);
  }
  for (int64_t y = 0; y < height; ++y) {
    const double at = (static_cast<double>(y) + 0.5 - where.top) / where.height;
    float* const to = stretched.view().row(y);
    Spend(kStepsOfStretching * width);
    std::fill_n(to, width, nan);
    if (!(at >= 0 && at < 1)) continue;
    const Cells down = CellsAt(at * static_cast<double>(rows), rows, upsampling);
    for (int64_t x = 0; x < width; ++x) {
      const Cells& cells = across[static_cast<size_t>(x)];
      const double x_at = (static_cast<double>(x) + 0.5 - where.left) / where.width;
      if (!(x_at >= 0 && x_at < 1)) continue;
      double sum = 0;
      for (size_t i = 0; i < 4; ++i) {
        for (size_t j = 0; j < 4 && down.weight[i] != 0; ++j) {
          if (cells.weight[j] != 0) sum += down.weight[i] * cells.weight[j] * *grid.at(down.index[i], cells.index[j]);
        }
      }
      to[x] = static_cast<float>(sum);
    }
  }
  return stretched;
}

Image OverlayHeat(const Image& photo, View<const float> grid, const Rect& where, const HeatStyle& style) {
  Image picture = ToChannels(photo, 3);
  const Image grey = ToChannels(picture, 1);
  const Tensor<float> heat = Stretch(grid, where, photo.height(), photo.width(), style.upsampling);
  const double range = style.high - style.low;
  ForEachRun(heat.size(), [&](int64_t begin, int64_t end) {
    uint8_t* to = picture.pixels.data() + 3 * begin;
    for (int64_t i = begin; i < end; ++i, to += 3) {
      if (std::isnan(heat[i])) {
        for (int c = 0; c < 3; ++c) to[c] = Blend(0, to[c], kDimmed);
        continue;
      }
      const double value = range > 0 ? (heat[i] - style.low) / range : 0;
      const Colour colour = ColourAt(style.colours, value);
      for (size_t c = 0; c < 3; ++c) to[c] = Blend(grey.pixels[i], colour[c], style.opacity);
    }
  });
  return picture;
}

void Fill(Image& image, int64_t top, int64_t left, int64_t height, int64_t width, const Colour& colour) {
  const int64_t y1 = std::min(top + height, image.height()), x1 = std::min(left + width, image.width());
  for (int64_t y = std::max<int64_t>(top, 0); y < y1; ++y) {
    Spend(std::max<int64_t>(1, x1 - left));
    for (int64_t x = std::max<int64_t>(left, 0); x < x1; ++x)
      std::copy_n(colour.data(), 3, image.pixels.view().at(y, x));
  }
}

void Paste(Image& image, const Image& picture, int64_t top, int64_t left) {
  const int64_t x0 = std::max<int64_t>(left, 0), x1 = std::min(left + picture.width(), image.width());
  const int64_t y0 = std::max<int64_t>(top, 0), y1 = std::min(top + picture.height(), image.height());
  for (int64_t y = y0; y < y1 && x0 < x1; ++y) {
    Spend(x1 - x0);
    std::copy_n(picture.pixels.view().at(y - top, x0 - left), 3 * (x1 - x0), image.pixels.view().at(y, x0));
  }
}

Image ContactSheet(const std::vector<Image>& pictures, const std::vector<std::string>& rows,
                   const std::vector<std::string>& columns, std::string_view title) {
  Require(!pictures.empty() && pictures.size() == rows.size() * columns.size(),
          "contact sheet: {} pictures for {} rows and {} columns", pictures.size(), rows.size(), columns.size());
  const int64_t height = pictures[0].height(), width = pictures[0].width(), line = TextHeight(kTextSize) + kGap;
  for (const Image& picture : pictures) {
    Require(picture.channels() == 3 && picture.height() == height && picture.width() == width,
            "contact sheet: the pictures differ in size");
  }
  int64_t names = 0;
  bool headed = false;
  for (const std::string& row : rows) names = std::max(names, TextWidth(row, kTextSize));
  for (const std::string& column : columns) headed |= !column.empty();
  const int64_t left = kMargin + (names > 0 ? names + kMargin : 0);
  const int64_t head = kMargin + (title.empty() ? 0 : line + kMargin), top = head + (headed ? line : 0);
  const auto R = static_cast<int64_t>(rows.size()), C = static_cast<int64_t>(columns.size());
  const int64_t sheet_width =
      std::max(left + C * (width + kGap) - kGap, kMargin + TextWidth(title, kTextSize)) + kMargin;
  Image sheet{Tensor<uint8_t>::Uninitialised({top + R * (height + kGap) - kGap + kMargin, sheet_width, 3})};
  Fill(sheet, 0, 0, sheet.height(), sheet.width(), kPaper);
  DrawText(sheet, title, kMargin, kMargin, kTextSize, kInk);
  for (int64_t c = 0; c < C; ++c) {
    const std::string& name = columns[static_cast<size_t>(c)];
    const int64_t x = left + c * (width + kGap);
    DrawText(sheet, name, head, x + std::max<int64_t>(0, (width - TextWidth(name, kTextSize)) / 2), kTextSize, kInk);
  }
  for (int64_t r = 0; r < R; ++r) {
    const std::string& name = rows[static_cast<size_t>(r)];
    const int64_t y = top + r * (height + kGap);
    DrawText(sheet, name, y + (height - TextHeight(kTextSize)) / 2, kMargin + names - TextWidth(name, kTextSize),
             kTextSize, kInk);
    for (int64_t c = 0; c < C; ++c) {
      Paste(sheet, pictures[static_cast<size_t>(r * C + c)], y, left + c * (width + kGap));
    }
  }
  return sheet;
}

}  // namespace qkv::image
