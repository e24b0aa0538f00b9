// Whole ways of small slides, by the built-in encoder.
#include "qkv/app/slides/slide_job.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>

#include "qkv/app/slides/slide_features.h"
#include "qkv/app/slides/slide_summary.h"
#include "qkv/core/file.h"
#include "qkv/slide/files/feature_file.h"
#include "qkv/slide/tissue/geojson.h"
#include "tests/app/slides/small_slide.h"
#include "tests/support/errors.h"
#include "tests/support/files.h"

namespace qkv::app {
namespace {

namespace fs = std::filesystem;

class SlideJob : public testing::Test {
 protected:
  SlideJob() {
    options_.output = folder_ / "out";
    options_.encoder = "digits";
    options_.grid.tile = 64;
  }

  SlideEntry Make(const std::string& name, const SmallSlide& slide = {}) {
    WriteSmallSlide(folder_ / (name + ".tif"), slide);
    return {folder_ / (name + ".tif"), name, {}};
  }

  SlideState Run(const SlideEntry& slide) {
    notes_.clear();
    const SlideEvents events = {.note = [&](const std::string& text) { notes_ += text + "\n"; },
                                .begin = [&](const std::string&, int64_t tiles) { begun_ = tiles; },
                                .advance = [](int64_t) {}};
    begun_ = 0;
    Embedder embedder("slide", AnyModel(ModelEntry()));
    return SlideJobs(options_, options_.encoder.empty() ? nullptr : &embedder, events).Run(slide);
  }

  fs::path Features(const std::string& name) const {
    return SlideFolder(options_.output, options_.grid).Features("digits", name);
  }

  const TemporaryFolder folder_;
  SlideJobOptions options_;
  std::string notes_;
  int64_t begun_ = 0;  // tiles whose vectors were to be made
};

TEST_F(SlideJob, MakesVectorsOfTissue) {
  const SlideState state = Run(Make("one"));
  EXPECT_EQ(state.error, "");
  EXPECT_NEAR(state.tissue, 3.1416 * 0.4 * 1024 * 0.4 * 768 * 0.25e-6, 0.005);
  EXPECT_EQ(begun_, state.tiles);
  const slide::FeatureFile file = slide::ReadFeatureFile(Features("one"));
  ASSERT_EQ(std::ssize(file.coords), state.tiles);
  EXPECT_EQ(file.features.shape(), Shape({state.tiles, 96}));
  // 20 × is 0.5 microns: tiles of 64 pixels of the slide.
  for (const auto& [x, y] : file.coords) EXPECT_TRUE(x % 64 == 0 && y % 64 == 0);
  EXPECT_EQ(std::get<int64_t>(file.coord_attributes.at("patch_size_level0")), 64);
}

TEST_F(SlideJob, GoesOnWhereItWas) {
  const SlideEntry slide = Make("one");
  const SlideState first = Run(slide);
  const std::string bytes = ReadFile(Features("one"));
  const SlideState again = Run(slide);
  EXPECT_EQ(begun_, 0);
  EXPECT_EQ(again.tiles, first.tiles);
  EXPECT_GE(again.seconds.at("features"), 0.001 * std::floor(1000 * first.seconds.at("features")));
  fs::remove(Features("one"));
  Run(slide);
  EXPECT_EQ(ReadFile(Features("one")), bytes);
}

// As long as other vectors would be lost, none are made.
TEST_F(SlideJob, ReplacesVectorsOnlyIfItIsTold) {
  const SlideEntry slide = Make("one");
  Run(slide);
  options_.new_tissue = true;
  options_.grid.min_tissue = 0.9;
  const std::string places = ReadFile(SlideFolder(options_.output, options_.grid).Coords("one"));
  const std::string bytes = ReadFile(Features("one"));
  EXPECT_NE(Run(slide).error.find("--overwrite"), std::string::npos);
  EXPECT_EQ(ReadFile(Features("one")), bytes);
  EXPECT_EQ(ReadFile(SlideFolder(options_.output, options_.grid).Coords("one")), places);
  options_.overwrite = true;
  EXPECT_EQ(Run(slide).error, "");
  EXPECT_NE(ReadFile(Features("one")), bytes);
  options_.new_tissue = false;
  Run(slide);
  EXPECT_EQ(begun_, 0) << "these are the same";
  fs::resize_file(Features("one"), 100);
  EXPECT_EQ(Run(slide).error, "");
  EXPECT_EQ(slide::ReadFeatureFile(Features("one")).coords.size(), static_cast<size_t>(begun_));
}

TEST_F(SlideJob, TakesEditedTissue) {
  const SlideEntry slide = Make("one");
  options_.encoder = "";
  const SlideState whole = Run(slide);
  const slide::Feature square = {.area = {.outer = {{256, 256}, {512, 256}, {512, 512}, {256, 512}}, .holes = {}}};
  slide::WriteGeoJson(SlideFolder(options_.output, options_.grid).Tissue("one"), std::span(&square, 1));
  EXPECT_EQ(Run(slide).tiles, 16);
  options_.new_tissue = true;
  EXPECT_EQ(Run(slide).tiles, whole.tiles);
}

// QuPath exports either; the last export is meant.
TEST_F(SlideJob, TakesGzippedTissueThatWasWrittenLater) {
  const SlideEntry slide = Make("one");
  options_.encoder = "";
  const SlideState whole = Run(slide);
  const slide::Feature square = {.area = {.outer = {{256, 256}, {512, 256}, {512, 512}, {256, 512}}, .holes = {}}};
  const fs::path areas = SlideFolder(options_.output, options_.grid).Tissue("one"), zipped = areas.string() + ".gz";
  slide::WriteGeoJson(zipped, std::span(&square, 1));
  fs::last_write_time(zipped, fs::last_write_time(areas) + std::chrono::seconds(1));
  EXPECT_EQ(Run(slide).tiles, 16);
  fs::last_write_time(zipped, fs::last_write_time(areas) - std::chrono::seconds(1));
  EXPECT_EQ(Run(slide).tiles, whole.tiles);
}

// Else its borders would stay those of a guess when the scale is given.
TEST_F(SlideJob, FindsNoTissueWithoutAScale) {
  const SlideEntry slide = Make("one", {.mpp = 0});
  EXPECT_NE(Run(slide).error, "");
  EXPECT_NE(notes_.find(slide.path.string() + ": grid: "), std::string::npos) << notes_;
  EXPECT_FALSE(fs::exists(SlideFolder(options_.output, options_.grid).Tissue("one")));
}

TEST_F(SlideJob, NamesCountsAndSkipsADamagedTile) {
  const SlideState whole = Run(Make("whole")), damaged = Run(Make("damaged", {.damaged_tile = 5}));
  EXPECT_EQ(damaged.error, "");
  EXPECT_GT(damaged.damaged, 0);
  EXPECT_LE(damaged.damaged, 16);
  ASSERT_FALSE(damaged.problems.empty());
  EXPECT_NE(notes_.find("damaged.tif"), std::string::npos);
  EXPECT_EQ(std::ssize(slide::ReadFeatureFile(Features("damaged")).coords), damaged.tiles - damaged.damaged);
  // Known to later runs too.
  const SlideState again = Run({folder_ / "damaged.tif", "damaged", {}});
  EXPECT_EQ(again.damaged, damaged.damaged);
  EXPECT_EQ(again.problems, damaged.problems);
}

TEST_F(SlideJob, GlassAloneGivesNoVectors) {
  const SlideState state = Run(Make("glass", {.tissue = false}));
  EXPECT_EQ(state.error, "");
  EXPECT_EQ(state.tiles, 0);
  EXPECT_NE(notes_.find("no tile shows enough tissue"), std::string::npos);
  EXPECT_EQ(slide::ReadFeatureFile(Features("glass")).features.shape(), Shape({0, 96}));
}

TEST_F(SlideJob, ASlideThatIsNoneHasAnErrorAndTheSummaryNamesIt) {
  WriteFile(folder_ / "text.tif", "no slide");
  const SlideState state = Run({folder_ / "text.tif", "text", {}});
  EXPECT_NE(state.error.find("text.tif"), std::string::npos);
  Run(Make("no-scale", {.mpp = 0}));
  Run({folder_ / "no-scale.tif", "scaled", 0.5});
  const SlideFolder results(options_.output, options_.grid);
  const std::vector<SlideState> states = WriteSummary(results);
  ASSERT_EQ(states.size(), 3);
  EXPECT_NE(states[0].error.find("--mpp-file"), std::string::npos) << states[0].error;
  EXPECT_EQ(states[1].error, "");
  const std::string csv = ReadFile(results.root() / "summary.csv"), page = ReadFile(results.root() / "summary.html");
  EXPECT_EQ(std::ranges::count(csv, '\n'), 4);
  for (const char* name : {"text", "no-scale", "scaled"}) {
    EXPECT_NE(csv.find(name), std::string::npos);
    EXPECT_NE(page.find(name), std::string::npos);
  }
}

// Also beside vectors that an earlier run made.
TEST_F(SlideJob, OtherLayoutsLieBeside) {
  const SlideEntry slide = Make("one");
  Run(slide);
  options_.layout = FeatureLayout::kClam;
  Run(slide);
  EXPECT_EQ(begun_, 0);
  const fs::path folder = Features("one").parent_path();
  EXPECT_EQ(slide::ReadFeatureFile(folder / "h5_files/one.h5").coords, slide::ReadFeatureFile(Features("one")).coords);
  EXPECT_TRUE(fs::exists(folder / "pt_files/one.pt"));
}

// Grey, until it cannot be read any more, as a slide that is replaced meanwhile.
class VanishingSlide : public slide::Slide {
 public:
  explicit VanishingSlide(int reads) : left_(reads) { facts_.levels.push_back({1024, 1024, 1}); }
  void Read(int, const slide::Region& region, image::Image& pixels) const override {
    Require(left_-- > 0, "the slide has changed");
    pixels.pixels.Reuse({region.height, region.width, 3});
    std::ranges::fill(pixels.pixels.span(), uint8_t{100});
  }
  image::Image ReadAssociated(const std::string&) const override { return {}; }

 private:
  mutable std::atomic<int> left_;
};

TEST_F(SlideJob, WhatIsNoDamagedTileEndsTheSlideAndKeepsItsJournal) {
  const fs::path path = folder_ / "one.tif";
  WriteFile(path, "its bytes");
  slide::Grid grid{.options = options_.grid, .size_at_level = 64, .size_at_level0 = 64, .coords = {}};
  for (int64_t i = 0; i < 256; ++i) grid.coords.push_back({64 * (i % 16), 64 * (i / 16)});
  const SlideFolder results(options_.output, options_.grid);
  const SlideEvents events;
  const std::string name = "one";
  options_.batch = 1;
  const auto make = [&](int reads) {
    const VanishingSlide slide(reads);
    Embedder embedder("slide", AnyModel(ModelEntry()));
    FeatureMaker maker{slide, grid, name, path, options_, results, events};
    return maker.Make(embedder);
  };
  EXPECT_NE(ErrorMessage([&] { make(100); }).find("the slide has changed"), std::string::npos);
  EXPECT_FALSE(fs::exists(Features(name)));
  EXPECT_TRUE(fs::exists(Features(name).string() + ".part"));
  EXPECT_EQ(make(255).coords.size(), 256u);  // some are in the journal
}

}  // namespace
}  // namespace qkv::app
