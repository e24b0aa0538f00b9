#include "qkv/report/svg.h"

#include <fmt/format.h>

#include <cmath>

#include "qkv/core/error.h"
#include "qkv/report/text.h"
#include "qkv/report/web_files.h"

namespace qkv::report {
namespace {

std::string ClassAttribute(std::string_view style) {
  return style.empty() ? "" : fmt::format(" class=\"{}\"", EscapeXml(style));
}

std::string_view AnchorName(Anchor anchor) {
  return anchor == Anchor::kMiddle ? "middle" : anchor == Anchor::kEnd ? "end" : "start";
}

}  // namespace

std::string Svg::Coordinate(double value) {
  finite_ &= std::isfinite(value);
  std::string text = fmt::format("{:.1f}", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

void Svg::Close(std::string_view tag, std::string_view tip) {
  body_ += tip.empty() ? "/>\n" : fmt::format("><title>{}</title></{}>\n", EscapeXml(tip), tag);
}

void Svg::Line(Point from, Point to, std::string_view style) {
  body_ += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"{}/>\n", Coordinate(from.x), Coordinate(from.y),
                       Coordinate(to.x), Coordinate(to.y), ClassAttribute(style));
}

void Svg::Curve(std::span<const Point> points, std::string_view style) {
  if (points.empty()) return;
  body_ += "<polyline points=\"";
  for (size_t i = 0; i < points.size(); ++i) {
    body_ += fmt::format("{}{},{}", i > 0 ? " " : "", Coordinate(points[i].x), Coordinate(points[i].y));
  }
  body_ += fmt::format("\"{}/>\n", ClassAttribute("curve " + std::string(style)));
}

void Svg::Polygon(std::span<const Point> points, std::string_view style, std::string_view tip) {
  if (points.empty()) return;
  body_ += "<polygon points=\"";
  for (size_t i = 0; i < points.size(); ++i) {
    body_ += fmt::format("{}{},{}", i > 0 ? " " : "", Coordinate(points[i].x), Coordinate(points[i].y));
  }
  body_ += fmt::format("\"{}", ClassAttribute(style));
  Close("polygon", tip);
}

void Svg::Circle(Point centre, double radius, std::string_view style, std::string_view tip) {
  body_ += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\"{}", Coordinate(centre.x), Coordinate(centre.y),
                       Coordinate(radius), ClassAttribute(style));
  Close("circle", tip);
}

void Svg::Rectangle(Point corner, double width, double height, std::string_view style, std::string_view tip) {
  body_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"{}", Coordinate(corner.x),
                       Coordinate(corner.y), Coordinate(width), Coordinate(height), ClassAttribute(style));
  Close("rect", tip);
}

void Svg::Cell(Point corner, double width, double height, std::string_view colour, std::string_view tip) {
  body_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{}\"", Coordinate(corner.x),
                       Coordinate(corner.y), Coordinate(width), Coordinate(height), EscapeXml(colour));
  Close("rect", tip);
}

void Svg::Words(Point at, std::string_view words, std::string_view style, Anchor anchor) {
  body_ += fmt::format(
      "<text x=\"{}\" y=\"{}\"{}{}>{}</text>\n", Coordinate(at.x), Coordinate(at.y), ClassAttribute(style),
      anchor == Anchor::kStart ? "" : fmt::format(" text-anchor=\"{}\"", AnchorName(anchor)), EscapeXml(words));
}

void Svg::VerticalWords(Point at, std::string_view words, std::string_view style, Anchor anchor) {
  body_ += fmt::format("<text transform=\"translate({} {}) rotate(-90)\"{} text-anchor=\"{}\">{}</text>\n",
                       Coordinate(at.x), Coordinate(at.y), ClassAttribute(style), AnchorName(anchor), EscapeXml(words));
}

std::string Svg::Finish(double width, double height) const {
  Require(finite_ && std::isfinite(width) && std::isfinite(height), "picture \"{}\": a coordinate is not finite",
          title_);
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" role=\"img\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "width=\"{0:.0f}\" height=\"{1:.0f}\">\n<title>{2}</title>\n<desc>{3}</desc>\n<style>\n{4}</style>\n{5}</svg>\n",
      std::ceil(width), std::ceil(height), EscapeXml(title_), EscapeXml(description_), ChartCss(), body_);
}

double EstimateTextWidth(std::string_view words, double font_size) {
  // Sans-serif letters are about 0.55 of the font's size wide on average.
  return 0.55 * font_size * static_cast<double>(CountCharacters(words));
}

}  // namespace qkv::report
