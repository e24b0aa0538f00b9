#include "qkv/slide/tissue/geojson.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "qkv/core/file.h"
#include "qkv/io/gzip.h"
#include "qkv/io/json.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace qkv::slide {
namespace {

Tissue Parsed(std::string_view text, std::vector<std::string>* notes = nullptr) {
  return ParseGeoJson(std::as_bytes(std::span(text.data(), text.size())), "areas.geojson",
                      [&](const std::string& note) {
                        if (notes) notes->push_back(note);
                      });
}

const Ring kSquare{{0, 0}, {10, 0}, {10, 10}, {0, 10}};
const Ring kHole{{2, 2}, {4, 2}, {4, 4}};

std::vector<Feature> SomeFeatures() {
  return {{.area = {kSquare, {kHole}}, .classification = {"Tissue", {10, 200, 30}}},
          {.area = {{{0.1, 1e-7}, {123456.789, 3}, {1.0 / 3, 99999}}},
           .detection = true,
           .classification = {"a \"b\"\n", {0, 0, 0}},
           .measurements = {{"attention", 0.25}, {"rank", std::nan("")}, {"µ", 3}}},
          {.area = {kSquare}}};
}

TEST(WriteGeoJson, FollowsQuPathsSchema) {
  const TemporaryFolder folder;
  WriteGeoJson(folder / "a.geojson", SomeFeatures());
  const io::Json json = io::ReadJson(folder / "a.geojson");
  EXPECT_EQ(json["type"], "FeatureCollection");
  ASSERT_EQ(json["features"].size(), 3u);
  const io::Json& area = json["features"][0];
  EXPECT_EQ(area, io::Json::parse(R"({"type": "Feature",
    "geometry": {"type": "Polygon", "coordinates": [[[0, 0], [10, 0], [10, 10], [0, 10], [0, 0]],
                                                    [[2, 2], [4, 2], [4, 4], [2, 2]]]},
    "properties": {"objectType": "annotation", "classification": {"name": "Tissue", "color": [10, 200, 30]},
                   "isLocked": false}})"));
  const io::Json& tile = json["features"][1]["properties"];
  EXPECT_EQ(tile["objectType"], "detection");
  EXPECT_EQ(tile["classification"]["name"], "a \"b\"\n");
  EXPECT_EQ(tile["measurements"], io::Json::parse(R"({"attention": 0.25, "µ": 3})"));  // no NaN in JSON
  EXPECT_FALSE(json["features"][2]["properties"].contains("classification"));
}

TEST(WriteGeoJson, IsReadBackToTheBitGzippedOrNot) {
  const TemporaryFolder folder;
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> coordinate(-10, 200000);
  std::vector<Feature> features;
  for (int i = 0; i < 50; ++i) {
    Feature& feature = features.emplace_back();
    for (int j = 0; j < 5; ++j) feature.area.outer.push_back({coordinate(random), std::round(coordinate(random))});
    for (int j = 0; j < i % 3; ++j)
      feature.area.holes.push_back({{coordinate(random), 0}, {1, 2}, {3, coordinate(random)}});
  }
  for (const char* name : {"a.geojson", "a.geojson.gz"}) {
    WriteGeoJson(folder / name, features);
    const Tissue tissue = ReadGeoJson(folder / name);
    ASSERT_EQ(tissue.polygons.size(), features.size());
    for (size_t i = 0; i < features.size(); ++i) {
      EXPECT_EQ(tissue.polygons[i].outer, features[i].area.outer);
      EXPECT_EQ(tissue.polygons[i].holes, features[i].area.holes);
    }
  }
  const std::string packed = ReadFile(folder / "a.geojson.gz");
  EXPECT_EQ(io::Gunzip(std::as_bytes(std::span(packed)), 1 << 20, "here"), ReadFile(folder / "a.geojson"));
  WriteGeoJson(folder / "b.geojson.gz", features);
  EXPECT_EQ(ReadFile(folder / "b.geojson.gz"), packed);
}

TEST(WriteGeoJson, StreamsAndLeavesNothingBehindAnError) {
  const TemporaryFolder folder;
  int made = 0;
  WriteGeoJson(folder / "many.geojson", [&](Feature& feature) {
    feature = {.area = {kSquare}, .detection = true};
    return ++made <= 3000;
  });
  EXPECT_EQ(io::ReadJson(folder / "many.geojson")["features"].size(), 3000u);
  EXPECT_THROW(WriteGeoJson(folder / "none.geojson.gz", [&](Feature&) -> bool { Fail("no more"); }), Error);
  EXPECT_EQ(folder.Count(), 1);
  WriteGeoJson(folder / "empty.geojson", std::span<const Feature>());
  EXPECT_TRUE(ReadGeoJson(folder / "empty.geojson").polygons.empty());
}

// As QuPath 0.5 and 0.6 export it: an area, a detection, a locked area of a class that it ignores, a line.
constexpr std::string_view kQuPath = R"({"type":"FeatureCollection","features":[
  {"type":"Feature","id":"5b9e8f5a-4c1e-4c7b-9b1e-0d1f6c1f3a11","geometry":{"type":"Polygon",
   "coordinates":[[[1,1],[9.5,1],[9.5,9],[1,1]]],"isEllipse":true},
   "properties":{"objectType":"annotation","isLocked":true,"classification":{"name":"Tumor","color":[200,0,0]}}},
  {"type":"Feature","id":"x","geometry":{"type":"MultiPolygon",
   "coordinates":[[[[0,0],[4,0],[4,4],[0,0]],[[1,0.5],[2,0.5],[2,1],[1,0.5]]],[[[10,10],[14,10],[14,14],[10,10]]]]},
   "properties":{"objectType":"annotation","name":"two","plane":{"c":-1,"z":0,"t":0}}},
  {"type":"Feature","geometry":{"type":"Polygon","coordinates":[[[1,1],[2,1],[2,2],[1,1]]]},
   "properties":{"objectType":"detection","measurements":[{"name":"a","value":1}]}},
  {"type":"Feature","geometry":{"type":"Polygon","coordinates":[[[1,1],[2,1],[2,2],[1,1]]]},
   "properties":{"objectType":"annotation","classification":{"name":"Ignore*","colorRGB":-1}}},
  {"type":"Feature","geometry":{"type":"LineString","coordinates":[[1,1],[2,2]]},"properties":{"objectType":"annotation"}},
  {"type":"Feature","geometry":null,"properties":null}]})";

TEST(ReadGeoJson, TakesAnnotationsOfQuPathAndSaysWhatItLeavesOut) {
  std::vector<std::string> notes;
  const Tissue tissue = Parsed(kQuPath, &notes);
  ASSERT_EQ(tissue.polygons.size(), 3u);
  EXPECT_EQ(tissue.polygons[0].outer, (Ring{{1, 1}, {9.5, 1}, {9.5, 9}}));
  EXPECT_EQ(tissue.polygons[1].holes.size(), 1u);
  EXPECT_EQ(tissue.polygons[2].outer.size(), 3u);
  const std::vector<std::string> expected{
      "areas.geojson: 1 left out: areas of class \"Ignore*\"",
      "areas.geojson: 1 left out: geometries of type \"LineString\"; only areas are read",
      "areas.geojson: 1 left out: objects of type \"detection\"",
      "areas.geojson: 1 left out: objects without a geometry",
  };
  EXPECT_EQ(notes, expected);
}

TEST(ReadGeoJson, TakesTridentsContours) {
  const Tissue tissue = Parsed(R"({"type": "FeatureCollection", "name": "a",
    "crs": {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::3857"}},
    "features": [{"type": "Feature", "properties": {"tissue_id": 0}, "geometry": {"type": "Polygon",
      "coordinates": [[[0.0, 0.0], [0.0, 8.0], [8.0, 8.0], [0.0, 0.0]], [[1.0, 2.0], [2.0, 3.0], [1.0, 3.0], [1.0, 2.0]]]}}]})");
  ASSERT_EQ(tissue.polygons.size(), 1u);
  EXPECT_EQ(tissue.polygons[0].holes.size(), 1u);
}

TEST(ReadGeoJson, TakesListsFeaturesGeometriesAndOpenRings) {
  EXPECT_EQ(Parsed(R"([{"type":"Feature","geometry":{"type":"Polygon","coordinates":[[[0,0,5],[1,0,5],[1,1,5]]]}}])")
                .polygons[0]
                .outer,
            (Ring{{0, 0}, {1, 0}, {1, 1}}));
  EXPECT_EQ(Parsed(R"({"type":"Polygon","coordinates":[[[0,0],[1,0],[1,1],[0,0]]]})").polygons.size(), 1u);
  std::vector<std::string> notes;
  EXPECT_TRUE(Parsed(R"({"type":"Polygon","coordinates":[[[0,0],[1,0],[0,0]]]})", &notes).polygons.empty());
  EXPECT_EQ(notes.size(), 1u);
  EXPECT_TRUE(Parsed(R"({"type":"Polygon","coordinates":[]})").polygons.empty());
  EXPECT_TRUE(Parsed("[]").polygons.empty());
}

TEST(ReadGeoJson, RefusesWhatIsNoGeoJsonOrNotInPixels) {
  const auto message = [](std::string_view text) { return ErrorMessage([&] { Parsed(text); }); };
  EXPECT_NE(message("").find("areas.geojson: not valid JSON"), std::string::npos);
  EXPECT_NE(message("{}").find("expected GeoJSON"), std::string::npos);
  EXPECT_NE(message("[3]").find("expected GeoJSON"), std::string::npos);
  EXPECT_NE(message(R"({"type":"FeatureCollection"})").find("without \"features\""), std::string::npos);
  EXPECT_NE(message(R"({"type":"FeatureCollection","features":3})").find("not a list"), std::string::npos);
  EXPECT_NE(message(R"({"type":"Polygon","coordinates":[[[0,0],[1,0],["x",1]]]})").find("not a list of x and y"),
            std::string::npos);
  EXPECT_NE(message(R"({"type":"Polygon","coordinates":[[[0,0],[1,0],[1e99,1]]]})").find("in pixels, at most 1"),
            std::string::npos);
  EXPECT_NE(message(std::string(9'000'000, ',')).find("export annotations without cells"), std::string::npos);
  EXPECT_NE(message(std::string(1000, '[')).find("nested more than"), std::string::npos);
}

TEST(ReadGeoJson, SurvivesCutAndFlippedFiles) {
  const auto tried = [](std::string_view text) {
    try {
      Parsed(text);
    } catch (const Error&) {
    }
  };
  for (size_t length = 0; length < kQuPath.size(); ++length) tried(kQuPath.substr(0, length));
  const TemporaryFolder folder;
  WriteGeoJson(folder / "a.gz", SomeFeatures());
  std::string packed = ReadFile(folder / "a.gz");
  for (size_t length = 0; length < packed.size(); ++length) tried(std::string_view(packed).substr(0, length));
  std::string flipped(kQuPath);
  for (std::string* text : {&packed, &flipped}) {
    for (char& c : *text) {
      for (const int bit : {1, 32}) {
        c = static_cast<char>(c ^ bit);
        tried(*text);
        c = static_cast<char>(c ^ bit);
      }
    }
  }
}

}  // namespace
}  // namespace qkv::slide
