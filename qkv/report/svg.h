// SVG drawing: lines, shapes and text in one style, readable on light and dark pages. Each picture contains its style
// sheet, so it is self-contained.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace qkv::report {

struct Point {
  double x = 0, y = 0;
};

enum class Anchor { kStart, kMiddle, kEnd };

/// A picture under construction, in pixels from the top left corner. Text is escaped. `style` is one or several of:
///
///     words    title, strong, small, muted, on-dark, on-light
///     lines    grid, axis, curve, dashed, thin
///     colours  s0 … s5 for lines, f0 … f5 for areas and marks; pale for background shapes
class Svg {
 public:
  /// `title` names the picture; `description` describes it in one sentence for screen readers.
  Svg(std::string title, std::string description) : title_(std::move(title)), description_(std::move(description)) {}

  void Line(Point from, Point to, std::string_view style);
  void Curve(std::span<const Point> points, std::string_view style);
  /// Filled, with a tooltip unless `tip` is empty.
  void Polygon(std::span<const Point> points, std::string_view style, std::string_view tip = {});
  void Circle(Point centre, double radius, std::string_view style, std::string_view tip = {});
  void Rectangle(Point corner, double width, double height, std::string_view style, std::string_view tip = {});
  /// A rectangle in a literal colour such as "#1b7298", for colour maps.
  void Cell(Point corner, double width, double height, std::string_view colour, std::string_view tip = {});
  void Words(Point at, std::string_view words, std::string_view style = {}, Anchor anchor = Anchor::kStart);
  /// Rotated to read upwards; `at` is their middle, or with another anchor their lower or upper end.
  void VerticalWords(Point at, std::string_view words, std::string_view style = {}, Anchor anchor = Anchor::kMiddle);

  /// The complete document. Throws Error if a coordinate was not finite.
  std::string Finish(double width, double height) const;

 private:
  std::string Coordinate(double value);
  void Close(std::string_view tag, std::string_view tip);

  std::string title_, description_, body_;
  bool finite_ = true;
};

/// Estimated width of text in pixels. Fonts differ: leave some room.
double EstimateTextWidth(std::string_view words, double font_size = 11);

}  // namespace qkv::report
