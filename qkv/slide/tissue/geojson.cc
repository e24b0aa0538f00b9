#include "qkv/slide/tissue/geojson.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "qkv/core/error.h"
#include "qkv/core/file.h"
#include "qkv/core/memory.h"
#include "qkv/core/work.h"
#include "qkv/io/gzip.h"
#include "qkv/io/json.h"

namespace qkv::slide {
namespace {

using Note = std::function<void(const std::string&)>;

// Unpacked; and numbers, each of some 16 bytes of text and up to 100 once parsed. QuPath's areas of tissue have
// thousands of points.
constexpr size_t kMaxGeoJsonBytes = size_t{256} << 20;
constexpr io::JsonLimits kGeoJsonLimits{.depth = 32, .token_bytes = 1 << 20, .values = size_t{8} << 20};
constexpr size_t kBytesOfValue = 64;
constexpr double kFurthest = 1e9;
// Features are gathered to pieces of this size.
constexpr size_t kGeoJsonPiece = size_t{1} << 16;

std::string JsonText(const std::string& text) {
  return io::Json(text).dump(-1, ' ', false, io::Json::error_handler_t::replace);
}

void AppendRing(const Ring& ring, std::string& text) {
  text += '[';
  for (size_t i = 0; i <= ring.size() && !ring.empty(); ++i) {
    const Point& point = ring[i % ring.size()];  // the first is repeated at the end
    fmt::format_to(std::back_inserter(text), "{}[{},{}]", i == 0 ? "" : ",", point[0], point[1]);
  }
  text += ']';
}

void AppendFeature(const Feature& feature, std::string& text) {
  text += R"({"type":"Feature","geometry":{"type":"Polygon","coordinates":[)";
  AppendRing(feature.area.outer, text);
  for (const Ring& hole : feature.area.holes) {
    text += ',';
    AppendRing(hole, text);
  }
  text += R"(]},"properties":{"objectType":")";
  text += feature.detection ? "detection" : "annotation";
  text += '"';
  if (!feature.classification.name.empty()) {
    const auto& [red, green, blue] = feature.classification.colour;
    fmt::format_to(std::back_inserter(text), R"(,"classification":{{"name":{},"color":[{},{},{}]}})",
                   JsonText(feature.classification.name), red, green, blue);
  }
  text += R"(,"isLocked":false)";
  bool first = true;
  for (const auto& [name, value] : feature.measurements) {
    if (!std::isfinite(value)) continue;
    fmt::format_to(std::back_inserter(text), "{}{}:{}", first ? R"(,"measurements":{)" : ",", JsonText(name), value);
    first = false;
  }
  text += first ? "}}" : "}}}";
}

void WriteFeatures(FileSink& sink, const std::function<bool(Feature&)>& next) {
  std::string text = R"({"type":"FeatureCollection","features":[)";
  Feature feature;
  for (bool first = true; next(feature); first = false) {
    text += first ? "\n" : ",\n";
    AppendFeature(feature, text);
    if (text.size() < kGeoJsonPiece) continue;
    CheckCancelled();
    sink.Write(text);
    text.clear();
  }
  sink.Write(text + "\n]}\n");
}

// Gathers the areas of a document.
class AreaReader {
 public:
  AreaReader(std::string_view where, const Note& note) : where_(where), note_(note) {}

  Tissue Read(const io::Json& document) {
    Any(document);
    for (const auto& [reason, count] : left_out_) {
      if (note_) note_(FormatShown("{}: {} left out: {}", where_, count, reason));
    }
    return std::move(tissue_);
  }

 private:
  static std::string TextOf(const io::Json& object, const char* key) {
    if (!object.is_object()) return "";
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : "";
  }
  const io::Json& Member(const io::Json& object, const char* key) const {
    const auto found = object.find(key);
    Require(found != object.end(), "{}: a {} without \"{}\"", where_, io::Quoted(TextOf(object, "type")), key);
    return *found;
  }

  void Any(const io::Json& value) {
    if (value.is_array()) {
      for (const io::Json& item : value) Any(item);
      return;
    }
    const std::string type = TextOf(value, "type");
    Require(!type.empty(), "{}: expected GeoJSON: a FeatureCollection, a Feature or a list of these", where_);
    if (type == "FeatureCollection") {
      const io::Json& features = Member(value, "features");
      Require(features.is_array(), "{}: \"features\" is not a list", where_);
      for (const io::Json& feature : features) Any(feature);
    } else if (type == "Feature") {
      ReadFeature(value);
    } else {
      Geometry(value, type);
    }
  }

  void ReadFeature(const io::Json& feature) {
    const auto properties = feature.find("properties");
    if (properties != feature.end() && properties->is_object()) {
      const std::string kind = TextOf(*properties, "objectType");
      if (!kind.empty() && kind != "annotation") return LeaveOut(FormatShown("objects of type {}", io::Quoted(kind)));
      const auto classification = properties->find("classification");
      const std::string name = classification != properties->end() ? TextOf(*classification, "name") : "";
      if (name.ends_with('*')) return LeaveOut(FormatShown("areas of class {}", io::Quoted(name)));
    }
    const io::Json& geometry = Member(feature, "geometry");
    if (geometry.is_null()) return LeaveOut("objects without a geometry");
    Geometry(geometry, TextOf(geometry, "type"));
  }

  void Geometry(const io::Json& geometry, const std::string& type) {
    if (type == "Polygon") {
      ReadPolygon(Member(geometry, "coordinates"));
    } else if (type == "MultiPolygon") {
      const io::Json& polygons = Member(geometry, "coordinates");
      Require(polygons.is_array(), "{}: the coordinates of a MultiPolygon are not a list", where_);
      for (const io::Json& polygon : polygons) ReadPolygon(polygon);
    } else {
      LeaveOut(FormatShown("geometries of type {}; only areas are read", io::Quoted(type)));
    }
  }

  void ReadPolygon(const io::Json& rings) {
    Require(rings.is_array(), "{}: the coordinates of a Polygon are not a list of rings", where_);
    Polygon polygon;
    for (size_t i = 0; i < rings.size(); ++i) {
      Ring ring = ReadRing(rings[i]);
      if (ring.size() < 3) {
        LeaveOut("rings of fewer than three points");
        if (i == 0) return;
        continue;
      }
      (i == 0 ? polygon.outer : polygon.holes.emplace_back()) = std::move(ring);
    }
    if (!polygon.outer.empty()) tissue_.polygons.push_back(std::move(polygon));
  }

  Ring ReadRing(const io::Json& points) const {
    Require(points.is_array(), "{}: a ring is not a list of points", where_);
    Ring ring;
    ring.reserve(points.size());
    for (const io::Json& point : points) {
      Spend(1);
      Require(point.is_array() && point.size() >= 2 && point[0].is_number() && point[1].is_number(),
              "{}: a point is not a list of x and y", where_);
      ring.push_back({point[0].get<double>(), point[1].get<double>()});
      Require(std::abs(ring.back()[0]) <= kFurthest && std::abs(ring.back()[1]) <= kFurthest,
              "{}: expected coordinates in pixels, at most {}, got {}, {}", where_, kFurthest, ring.back()[0],
              ring.back()[1]);
    }
    while (ring.size() > 1 && ring.front() == ring.back()) ring.pop_back();
    return ring;
  }

  void LeaveOut(const std::string& reason) {
    constexpr size_t kReasons = 20;
    if (left_out_.size() < kReasons || left_out_.contains(reason)) ++left_out_[reason];
  }

  std::string_view where_;
  const Note& note_;
  std::map<std::string, int64_t> left_out_;
  Tissue tissue_;
};

}  // namespace

void WriteGeoJson(const std::filesystem::path& path, const std::function<bool(Feature&)>& next) {
  WriteFile(path, [&](FileSink& file) {
    if (path.extension() != ".gz") return WriteFeatures(file, next);
    io::GzipSink packed(file);
    WriteFeatures(packed, next);
    packed.Finish();
  });
}

void WriteGeoJson(const std::filesystem::path& path, std::span<const Feature> features) {
  size_t index = 0;
  WriteGeoJson(path, [&](Feature& feature) {
    if (index == features.size()) return false;
    feature = features[index++];
    return true;
  });
}

Tissue ParseGeoJson(std::span<const std::byte> bytes, std::string_view where, const Note& note) {
  std::string unpacked;
  if (io::IsGzip(bytes)) {
    unpacked = io::Gunzip(bytes, kMaxGeoJsonBytes, where);
    bytes = std::as_bytes(std::span(unpacked));
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto values = std::count_if(text.begin(), text.end(), [](char c) { return c == ',' || c == '['; });
  Require(static_cast<size_t>(values) <= kGeoJsonLimits.values,
          "{}: expected areas of tissue of at most {} values, got {}; export annotations without cells and tiles",
          where, kGeoJsonLimits.values, values);
  RequireMemory(static_cast<double>(values) * kBytesOfValue, where);
  io::CheckJsonLimits(text, kGeoJsonLimits, where);
  io::Json document;
  try {
    document = io::Json::parse(text);
  } catch (const io::Json::exception& error) {
    Fail("{}: not valid JSON: {}", where, io::JsonErrorReason(error));
  }
  return AreaReader(where, note).Read(document);
}

Tissue ReadGeoJson(const std::filesystem::path& path, const Note& note) {
  const MappedFile file(path);
  Require(file.bytes().size() <= kMaxGeoJsonBytes, "{}: expected areas of tissue of at most {}, got {}", path.string(),
          FormatBytes(kMaxGeoJsonBytes), FormatBytes(static_cast<double>(file.bytes().size())));
  Tissue tissue = ParseGeoJson(file.bytes(), path.string(), note);
  file.RequireUnchanged(path.string());
  return tissue;
}

}  // namespace qkv::slide
