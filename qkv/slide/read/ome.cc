// OME-TIFF: which directories its XML names as the slide, its label and its macro picture, and their scale
// (docs.openmicroscopy.org, "OME-TIFF specification").
#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <string_view>

#include "qkv/core/error.h"
#include "qkv/slide/read/tiff_layout.h"

#ifdef QKV_EXPAT
#include <expat.h>
#endif

namespace qkv::slide {
namespace {

/// An Image of the XML.
struct OmeImage {
  std::string name, objective;
  int64_t width = 0, height = 0, planes = 1, channels = 1;
  int64_t samples = 1;          // of a channel
  std::optional<int64_t> page;  // the first TiffData's IFD
  std::optional<double> mpp_x, mpp_y;
};

struct OmeDocument {
  std::vector<OmeImage> images;
  std::map<std::string, double> objectives;  // nominal magnification by id
  bool is_elsewhere = false;                 // the metadata is in another file
};

#ifdef QKV_EXPAT

constexpr size_t kMaxImages = 4096, kMaxDepth = 256;

struct OmeReader {
  OmeDocument document;
  XML_Parser parser = nullptr;
  size_t depth = 0;

  void Begin(std::string_view element, const char** attributes);
};

std::string_view OmeAttribute(const char** attributes, std::string_view name) {
  for (; attributes[0] != nullptr; attributes += 2)
    if (name == attributes[0]) return attributes[1];
  return {};
}

template <typename T>
std::optional<T> OmeNumber(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

/// Microns a pixel; nothing for units that are no lengths.
std::optional<double> OmeLength(const char** attributes, std::string_view name) {
  const std::optional<double> value = OmeNumber<double>(OmeAttribute(attributes, name));
  if (!value || !std::isfinite(*value) || *value <= 0) return {};
  const std::string_view unit = OmeAttribute(attributes, std::string(name) + "Unit");
  const std::pair<std::string_view, double> microns[] = {{"", 1},      {"µm", 1},    {"μm", 1},      {"um", 1},
                                                         {"nm", 1e-3}, {"pm", 1e-6}, {"Å", 1e-4},    {"mm", 1e3},
                                                         {"cm", 1e4},  {"m", 1e6},   {"in", 25400.0}};
  for (const auto& [known, scale] : microns)
    if (unit == known) return *value * scale;
  return {};
}

/// The name without its namespace.
std::string_view LocalName(std::string_view name) { return name.substr(name.find_last_of(':') + 1); }

void OmeReader::Begin(std::string_view element, const char** attributes) {
  std::vector<OmeImage>& images = document.images;
  if (element == "Image") {
    if (images.size() < kMaxImages) images.emplace_back().name = OmeAttribute(attributes, "Name");
  } else if (element == "BinaryOnly") {
    document.is_elsewhere = true;
  } else if (element == "Objective") {
    const auto power = OmeNumber<double>(OmeAttribute(attributes, "NominalMagnification"));
    if (power && std::isfinite(*power) && *power > 0 && document.objectives.size() < kMaxImages)
      document.objectives.emplace(OmeAttribute(attributes, "ID"), *power);
  } else if (images.empty()) {
    return;
  } else if (element == "ObjectiveSettings") {
    images.back().objective = OmeAttribute(attributes, "ID");
  } else if (element == "Pixels") {
    OmeImage& image = images.back();
    const auto count = [&](const char* name) { return OmeNumber<int64_t>(OmeAttribute(attributes, name)).value_or(1); };
    image.width = count("SizeX");
    image.height = count("SizeY");
    image.channels = count("SizeC");
    image.planes = std::max<int64_t>({count("SizeZ"), count("SizeT"), 1});
    image.mpp_x = OmeLength(attributes, "PhysicalSizeX");
    image.mpp_y = OmeLength(attributes, "PhysicalSizeY");
  } else if (element == "Channel") {
    images.back().samples = OmeNumber<int64_t>(OmeAttribute(attributes, "SamplesPerPixel")).value_or(1);
  } else if (element == "TiffData" && !images.back().page) {
    images.back().page = OmeNumber<int64_t>(OmeAttribute(attributes, "IFD")).value_or(0);
  }
}

OmeDocument ParseOme(const std::string& xml, const std::string& where) {
  OmeReader reader;
  const std::unique_ptr<XML_ParserStruct, void (*)(XML_Parser)> parser(XML_ParserCreate(nullptr), XML_ParserFree);
  Require(parser != nullptr, "{}: OME-TIFF: no memory", where);
  reader.parser = parser.get();
  XML_SetUserData(parser.get(), &reader);
  // Deep nesting and entities, which could grow without end, stop the parser.
  XML_SetElementHandler(
      parser.get(),
      [](void* user, const char* name, const char** attributes) {
        auto& in = *static_cast<OmeReader*>(user);
        if (++in.depth > kMaxDepth) {
          XML_StopParser(in.parser, XML_FALSE);
        } else {
          in.Begin(LocalName(name), attributes);
        }
      },
      [](void* user, const char*) { --static_cast<OmeReader*>(user)->depth; });
  XML_SetEntityDeclHandler(parser.get(),
                           [](void* user, const char*, int, const char*, int, const char*, const char*, const char*,
                              const char*) { XML_StopParser(static_cast<OmeReader*>(user)->parser, XML_FALSE); });
  CheckCancelled();
  const bool ok =
      xml.size() < INT32_MAX && XML_Parse(parser.get(), xml.data(), static_cast<int>(xml.size()), 1) == XML_STATUS_OK;
  Require(ok, "{}: OME-TIFF: line {} of its XML: {}", where, XML_GetCurrentLineNumber(parser.get()),
          XML_ErrorString(XML_GetErrorCode(parser.get())));
  return std::move(reader.document);
}

#else

OmeDocument ParseOme(const std::string&, const std::string& where) {
  Fail("{}: OME-TIFF: built without libexpat (Debian: libexpat1-dev); build qkv again with it", where);
}

#endif

/// "label", "macro" or "thumbnail" if the name says so.
std::string AssociatedName(std::string_view name) {
  std::string lower(name);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const auto& [part, known] : {std::pair("label", "label"), std::pair("macro", "macro"),
                                    std::pair("overview", "macro"), std::pair("thumbnail", "thumbnail")})
    if (lower.find(part) != std::string::npos) return known;
  return {};
}

}  // namespace

bool IsOme(const TiffPage& first) {
  const std::string_view text = first.description;
  return text.find("<OME ") != text.npos || text.find("<OME:OME ") != text.npos || text.find("<ome:OME ") != text.npos;
}

TiffLayout OmeLayout(const TiffFile& file, const std::vector<TiffPage>& pages) {
  const std::string where = "slide: " + file.path().string();
  const OmeDocument document = ParseOme(pages[0].description, where);
  Require(!document.is_elsewhere, "{}: OME-TIFF: its metadata is in another file; open that one", where);
  Require(!document.images.empty(), "{}: OME-TIFF: its XML names no image", where);
  const OmeImage& image = *std::ranges::max_element(document.images, {}, [](const OmeImage& i) {
    return static_cast<double>(i.width) * static_cast<double>(i.height);
  });
  const auto page_of = [&](const OmeImage& i) -> const TiffPage* {
    const int64_t index = i.page.value_or(0);
    return index >= 0 && index < std::ssize(pages) ? &pages[static_cast<size_t>(index)] : nullptr;
  };
  const TiffPage* finest = page_of(image);
  Require(finest != nullptr && finest->width == image.width && finest->height == image.height,
          "{}: OME-TIFF: its XML says {} x {} pixels at directory {}, which is not so", where, image.width,
          image.height, image.page.value_or(0));
  Require(image.planes == 1 && (image.channels == finest->samples),
          "{}: OME-TIFF: {} channels, {} in a directory, in {} planes; expected one picture in colours or grey", where,
          image.channels, finest->samples, image.planes);
  TiffLayout layout;
  layout.format = "OME-TIFF";
  layout.mpp_x = image.mpp_x;
  layout.mpp_y = image.mpp_y;
  if (const auto power = document.objectives.find(image.objective); power != document.objectives.end())
    layout.magnification = power->second;
  layout.levels.push_back(*finest);
  std::vector<TiffPage> coarser = file.ReadSubPages(*finest);
  std::vector<const TiffPage*> beside;
  for (const OmeImage& other : document.images) {
    const TiffPage* const page = &other == &image ? nullptr : page_of(other);
    if (page == nullptr || page == finest) continue;
    if (const std::string name = AssociatedName(other.name); !name.empty()) {
      layout.associated.emplace_back(name, *page);
      beside.push_back(page);
    }
  }
  // Older writers have the levels as further images, or as directories that the XML does not name.
  for (const TiffPage& page : pages)
    if (&page != finest && std::ranges::find(beside, &page) == beside.end()) coarser.push_back(page);
  AddCoarserLevels(coarser, layout.levels);
  return layout;
}

}  // namespace qkv::slide
