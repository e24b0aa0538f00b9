#include "qkv/slide/read/tiff_layout.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "qkv/core/error.h"

namespace qkv::slide {
namespace {

// Microns a pixel that a microscope can have. 72, 96 and 300 dots an inch, which programs write where they know
// nothing, are 353, 265 and 85.
constexpr double kMinMpp = 0.01, kMaxMpp = 20;
constexpr double kMicronsPerInch = 25400, kMicronsPerCentimetre = 10000;
// Levels that are cut to whole tiles differ a little in their sides' ratio.
constexpr double kAspectTolerance = 0.01;
// NewSubfileType of Aperio's pictures of the slide.
constexpr uint32_t kLabelType = 1, kMacroType = 9;

std::string_view TrimmedField(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

/// A positive number, also with a decimal comma; nothing for anything else.
std::optional<double> PositiveField(std::string_view text) {
  std::string number(TrimmedField(text));
  std::ranges::replace(number, ',', '.');
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc() || end != number.data() + number.size() || !std::isfinite(value) || value <= 0) return {};
  return value;
}

/// Microns a pixel by the page's resolution, if a microscope can have it.
std::optional<double> MppOf(const TiffPage& page, const std::optional<double>& pixels_per_unit) {
  if (!pixels_per_unit || *pixels_per_unit <= 0) return {};
  const double microns = page.resolution_unit == RESUNIT_CENTIMETER ? kMicronsPerCentimetre
                         : page.resolution_unit == RESUNIT_INCH     ? kMicronsPerInch
                                                                    : 0;
  const double mpp = microns / *pixels_per_unit;
  if (mpp < kMinMpp || mpp > kMaxMpp) return {};
  return mpp;
}

/// "Aperio …\r\n…|AppMag = 20|MPP = 0.4990"
void ReadAperioFields(std::string_view description, TiffLayout& layout) {
  for (size_t begin = description.find('|'); begin != description.npos;) {
    const size_t end = description.find('|', begin + 1);
    const std::string_view field = description.substr(begin + 1, end == description.npos ? end : end - begin - 1);
    const size_t equals = field.find('=');
    if (equals != field.npos) {
      const std::string_view name = TrimmedField(field.substr(0, equals)), value = field.substr(equals + 1);
      if (name == "AppMag") layout.magnification = PositiveField(value);
      if (name == "MPP") layout.mpp_x = layout.mpp_y = PositiveField(value);
    }
    begin = end;
  }
}

/// The first word of the description's second line, else by the kind of directory; empty if neither says it.
std::string AperioName(const TiffPage& page, size_t index) {
  if (index == 1) return "thumbnail";
  const std::string_view text = page.description;
  const size_t line = text.find_first_of("\r\n");
  if (line != text.npos) {
    const std::string_view rest = text.substr(
        text.find_first_not_of("\r\n", line) == text.npos ? text.size() : text.find_first_not_of("\r\n", line));
    const std::string_view word = rest.substr(0, rest.find_first_of(" \r\n"));
    if (word == "label" || word == "macro" || word == "thumbnail") return std::string(word);
  }
  return page.subfile_type == kLabelType ? "label" : page.subfile_type == kMacroType ? "macro" : "";
}

TiffLayout AperioLayout(const std::vector<TiffPage>& pages) {
  TiffLayout layout;
  layout.format = "Aperio";
  layout.spreads_absence = true;
  layout.levels.push_back(pages[0]);
  std::vector<TiffPage> coarser;
  for (size_t i = 1; i < pages.size(); ++i) {
    if (pages[i].tiled && HasSameAspect(pages[0], pages[i])) {
      coarser.push_back(pages[i]);
    } else if (const std::string name = AperioName(pages[i], i); !name.empty()) {
      layout.associated.emplace_back(name, pages[i]);
    }
  }
  AddCoarserLevels(coarser, layout.levels);
  ReadAperioFields(pages[0].description, layout);
  return layout;
}

TiffLayout PlainLayout(const TiffFile& file, const std::vector<TiffPage>& pages) {
  TiffLayout layout;
  layout.levels.push_back(pages[0]);
  std::vector<TiffPage> coarser = file.ReadSubPages(pages[0]);
  for (size_t i = 1; i < pages.size(); ++i) {
    // A second picture of a plain file may have the first's shape by chance: a reduced one says so, or has tiles.
    if ((pages[i].subfile_type & FILETYPE_REDUCEDIMAGE) != 0 || pages[i].tiled) coarser.push_back(pages[i]);
  }
  AddCoarserLevels(coarser, layout.levels);
  layout.format = layout.levels.size() > 1 ? "TIFF pyramid" : "flat TIFF";
  layout.mpp_x = MppOf(pages[0], pages[0].resolution_x);
  layout.mpp_y = MppOf(pages[0], pages[0].resolution_y);
  return layout;
}

}  // namespace

bool HasSameAspect(const TiffPage& a, const TiffPage& b) {
  const double across = static_cast<double>(b.width) / a.width, down = static_cast<double>(b.height) / a.height;
  const double scale = std::max(across, down);
  // Two pixels of the smaller picture, or some per cent.
  return std::abs(across - down) <= std::max(kAspectTolerance * scale, 2.0 / std::min(a.width, a.height));
}

void AddCoarserLevels(const std::vector<TiffPage>& pages, std::vector<TiffPage>& levels) {
  std::vector<TiffPage> sorted = pages;
  std::ranges::stable_sort(sorted, [](const TiffPage& a, const TiffPage& b) { return a.width > b.width; });
  const TiffPage finest = levels[0];
  for (const TiffPage& page : sorted) {
    const TiffPage& before = levels.back();
    if (page.width < before.width && page.height < before.height && HasSameAspect(finest, page)) levels.push_back(page);
  }
}

std::string ScannerOf(const std::vector<TiffPage>& pages) {
  const TiffPage& first = pages[0];
  const auto says = [&](std::string_view text) { return first.description.find(text) != std::string::npos; };
  if (first.has_ndpi_tag) return "Hamamatsu";
  if (says("http://www.leica-microsystems.com/scn/")) return "Leica";
  if (first.software.starts_with("Philips") || says("DPUfsImport")) return "Philips";
  if (first.software.starts_with("MedScan")) return "Trestle";
  if (std::ranges::any_of(pages, [](const TiffPage& page) { return page.has_iscan; })) return "Ventana";
  return {};
}

TiffLayout FindLayout(const TiffFile& file, const std::vector<TiffPage>& pages) {
  if (IsOme(pages[0])) return OmeLayout(file, pages);
  if (pages[0].tiled && pages[0].description.starts_with("Aperio")) return AperioLayout(pages);
  return PlainLayout(file, pages);
}

}  // namespace qkv::slide
