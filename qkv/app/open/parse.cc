#include "qkv/app/open/parse.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "qkv/core/error.h"

namespace qkv::app {
namespace {

constexpr int64_t kMaxSide = 1 << 16;

}  // namespace

InputSize ParseSize(std::string_view text, std::string_view option) {
  InputSize size;
  if (text == "native") return size;
  const char* const end = text.data() + text.size();
  std::from_chars_result read = std::from_chars(text.data(), end, size.height);
  size.width = size.height;
  if (read.ec == std::errc() && read.ptr != end && (*read.ptr == 'x' || *read.ptr == 'X')) {
    read = std::from_chars(read.ptr + 1, end, size.width);
  }
  Require(read.ec == std::errc() && read.ptr == end && size.height > 0 && size.width > 0 && size.height <= kMaxSide &&
              size.width <= kMaxSide,
          "{}: expected HEIGHTxWIDTH such as 224x160, or native, got \"{}\"", option, text);
  return size;
}

std::string ToText(const InputSize& size) {
  return size.native() ? "native" : fmt::format("{}x{}", size.height, size.width);
}

std::vector<int64_t> ParseList(std::string_view text, int64_t first, int64_t last, std::string_view option) {
  std::vector<int64_t> numbers;
  if (text == "all") {
    for (int64_t i = first; i <= last; ++i) numbers.push_back(i);
    return numbers;
  }
  const char *at = text.data(), *const end = text.data() + text.size();
  while (at != end) {
    int64_t number = 0;
    const auto [after, error] = std::from_chars(at, end, number);
    Require(error == std::errc() && (after == end || (*after == ',' && after + 1 != end)) && number >= first &&
                number <= last,
            "{}: expected numbers from {} to {} separated by commas, or all, got \"{}\"", option, first, last, text);
    if (std::find(numbers.begin(), numbers.end(), number) == numbers.end()) numbers.push_back(number);
    at = after == end ? end : after + 1;
  }
  return numbers;
}

std::vector<double> ParseNumbers(std::string_view text, std::string_view option) {
  std::vector<double> numbers;
  const char *at = text.data(), *const end = text.data() + text.size();
  do {
    double number = 0;
    const auto [after, error] = std::from_chars(at, end, number);
    Require(error == std::errc() && std::isfinite(number) && (after == end || (*after == ',' && after + 1 != end)),
            "{}: expected a number, or several separated by commas, got \"{}\"", option, text);
    numbers.push_back(number);
    at = after == end ? end : after + 1;
  } while (at != end);
  return numbers;
}

namespace {

struct NamedWindow {
  std::string_view name;
  double center, width;  // Hounsfield units
};

// As radiology's textbooks and viewers have them.
constexpr NamedWindow kWindows[] = {
    {"abdomen", 50, 400}, {"angio", 300, 600},  {"bone", 400, 1800},      {"brain", 40, 80},
    {"liver", 30, 150},   {"lung", -600, 1500}, {"mediastinum", 50, 350}, {"soft-tissue", 50, 400},
    {"spine", 50, 250},   {"stroke", 40, 40},   {"subdural", 75, 215},    {"temporal-bone", 600, 2800},
};

std::string WindowNames() {
  std::string names;
  for (const NamedWindow& window : kWindows) names += fmt::format("{}{}", names.empty() ? "" : ", ", window.name);
  return names;
}

}  // namespace

std::pair<double, double> ParseWindow(std::string_view text, std::string_view option) {
  const auto named = std::ranges::find(kWindows, text, &NamedWindow::name);
  if (named != std::end(kWindows)) return {named->center - named->width / 2, named->center + named->width / 2};
  double low = 0, high = 0;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, low);
  const bool comma = first.ec == std::errc() && first.ptr != end && *first.ptr == ',';
  const auto second = comma ? std::from_chars(first.ptr + 1, end, high) : first;
  Require(comma && second.ec == std::errc() && second.ptr == end && low < high,
          "{}: expected LOW,HIGH with LOW below HIGH, such as 0,4095, or for CT {}; got \"{}\"", option, WindowNames(),
          text);
  return {low, high};
}

std::string_view PrecisionName(simd::Precision precision) {
  switch (precision) {
    case simd::Precision::kFloat32:
      return "fp32";
    case simd::Precision::kBfloat16:
      return "bf16";
    case simd::Precision::kInt8:
      return "int8";
  }
  return "?";
}

simd::Precision ParsePrecision(std::string_view name, std::string_view option) {
  using simd::Precision;
  if (name == "auto") {
    return simd::Describe(Precision::kBfloat16).native ? Precision::kBfloat16 : Precision::kFloat32;
  }
  for (const Precision precision : {Precision::kFloat32, Precision::kBfloat16, Precision::kInt8}) {
    if (name == PrecisionName(precision)) return precision;
  }
  Fail("{}: expected fp32, bf16, int8 or auto, got \"{}\"", option, name);
}

}  // namespace qkv::app
