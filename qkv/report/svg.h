// Pictures as SVG: lines, shapes and words in one restrained style that is readable on a light and on a dark page.
// Colours stand in the style sheet of each picture, so that a picture is whole by itself.
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

/// A picture in the making, in pixels from its top left corner. Words are escaped here. `style` is one or several of:
///
///     words    title, strong, small, muted, on-dark, on-light
///     lines    grid, axis, curve, dashed, thin
///     colours  s0 … s5 for lines, f0 … f5 for areas and marks; pale for what stands behind
class Svg {
 public:
  /// `title` names the picture, `description` says in a sentence what it shows, to those who cannot see it.
  Svg(std::string title, std::string description) : title_(std::move(title)), description_(std::move(description)) {}

  void Line(Point from, Point to, std::string_view style);
  void Curve(std::span<const Point> points, std::string_view style);
  /// Filled, with words that show when it is pointed at, unless they are empty.
  void Polygon(std::span<const Point> points, std::string_view style, std::string_view tip = {});
  void Circle(Point centre, double radius, std::string_view style, std::string_view tip = {});
  void Rectangle(Point corner, double width, double height, std::string_view style, std::string_view tip = {});
  /// Of a colour of its own, "#1b7298", such as a colour map's.
  void Cell(Point corner, double width, double height, std::string_view colour, std::string_view tip = {});
  void Words(Point at, std::string_view words, std::string_view style = {}, Anchor anchor = Anchor::kStart);
  /// Turned to read upwards, with its middle at `at`.
  void WordsUpwards(Point at, std::string_view words, std::string_view style = {});

  /// The whole document. Throws Error when a coordinate was not finite.
  std::string Finish(double width, double height) const;

 private:
  std::string Coordinate(double value);
  void Close(std::string_view tag, std::string_view tip);

  std::string title_, description_, body_;
  bool finite_ = true;
};

/// About how wide words are, in pixels. Fonts differ: leave some room.
double WidthOf(std::string_view words, double font_size = 11);

}  // namespace qkv::report
