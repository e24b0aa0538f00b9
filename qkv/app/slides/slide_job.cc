#include "qkv/app/slides/slide_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <mutex>

#include "qkv/app/slides/slide_answers.h"
#include "qkv/app/slides/slide_features.h"
#include "qkv/app/slides/slide_maps.h"
#include "qkv/app/slides/slide_pictures.h"
#include "qkv/core/file.h"
#include "qkv/core/parallel.h"
#include "qkv/image/encode.h"
#include "qkv/slide/files/feature_file.h"
#include "qkv/slide/tissue/geojson.h"

namespace qkv::app {

namespace fs = std::filesystem;

struct SlideJobs::Work {
  const SlideEntry& entry;
  SlideState& state;
  SlideState earlier;  // of the run before this
  std::unique_ptr<slide::Slide> slide;
  slide::Tissue tissue;
  slide::Grid grid;
  slide::FeatureFile features;
};

namespace {

// Side of a slide's small picture.
constexpr int64_t kThumbnailSide = 1000;
const slide::Classification kTissueClass = {"Tissue", {0, 160, 80}};

class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds) {}
  ~Stopwatch() { seconds_ += std::chrono::duration<double>(Clock::now() - start_).count(); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  double& seconds_;
  const Clock::time_point start_ = Clock::now();
};

double AreaOf(const slide::Ring& ring) {
  double twice = 0;
  for (size_t i = 0; i < ring.size(); ++i) {
    const slide::Point &a = ring[i], &b = ring[(i + 1) % ring.size()];
    twice += a[0] * b[1] - a[1] * b[0];
  }
  return std::abs(twice) / 2;
}

// In pixels of level 0.
double AreaOf(const slide::Tissue& tissue) {
  double area = 0;
  for (const slide::Polygon& polygon : tissue.polygons) {
    area += AreaOf(polygon.outer);
    for (const slide::Ring& hole : polygon.holes) area -= AreaOf(hole);
  }
  return area;
}

std::vector<slide::Feature> AsFeatures(const slide::Tissue& tissue) {
  std::vector<slide::Feature> features;
  for (const slide::Polygon& polygon : tissue.polygons) {
    features.push_back({.area = polygon, .classification = kTissueClass});
  }
  return features;
}

// The file of areas that was written last: QuPath also exports gzipped ones, beside qkv's. Empty if there is none.
fs::path KnownAreas(const fs::path& areas) {
  const fs::path zipped = areas.string() + ".gz";
  if (!FileExists(zipped)) return FileExists(areas) ? areas : fs::path();
  std::error_code error;  // of a file that is not there any more: its time is the earliest
  const bool older = FileExists(areas) && fs::last_write_time(areas, error) > fs::last_write_time(zipped, error);
  return older ? areas : zipped;
}

void DescribeSlide(const slide::SlideFacts& facts, SlideState& state) {
  state.format = facts.format;
  state.reader = facts.reader;
  state.width = facts.levels[0].width;
  state.height = facts.levels[0].height;
  state.mpp = facts.mpp_x;
  state.magnification = facts.magnification;
}

}  // namespace

SlideJobs::SlideJobs(const SlideJobOptions& options, Embedder* embedder, const SlideEvents& events)
    : options_(options), embedder_(embedder), events_(events), folder_(options.output, options.grid) {
  Require(options.encoder.empty() == (embedder == nullptr), "slide: vectors and an encoder go together");
  Require(options.heads.empty() || !options.encoder.empty(), "slide: a head needs vectors");
}

SlideState SlideJobs::Run(const SlideEntry& entry) {
  SlideState state{.name = entry.name, .path = entry.path.string(), .encoder = options_.encoder};
  Work work{entry, state, {}, nullptr, {}, {}, {}};
  try {
    work.earlier = ReadState(folder_, entry.name);
    work.slide = slide::OpenSlide(entry.path, {.openslide = options_.openslide, .mpp = entry.mpp});
    DescribeSlide(work.slide->facts(), state);
    // A grid that cannot be is refused first: tissue that was found without a scale would be taken for edited later.
    slide::PlanGrid(work.slide->facts(), {}, options_.grid);
    FindTissue(work);
    PlanTiles(work);
    if (options_.save_tiles) SaveTiles(work);
    if (!options_.encoder.empty()) MakeFeatures(work);
    SavePlaces(work);
    if (!options_.heads.empty()) Answer(work);
  } catch (const Error& error) {
    state.error = error.what();
    // Among many slides an error must say whose it is.
    const bool named = state.error.find(state.path) != std::string::npos;
    Notify(events_.note, named ? state.error : FormatShown("{}: {}", state.path, state.error));
  }
  SaveState(folder_, state);
  return state;
}

void SlideJobs::FindTissue(Work& work) {
  const Stopwatch watch(work.state.seconds["tissue"]);
  const std::string& name = work.entry.name;
  const auto damaged = [&](const std::string& why) {
    if (work.state.problems.size() < kProblemsKept) work.state.problems.push_back(why);
    Notify(events_.note, why);
  };
  const fs::path areas = folder_.Tissue(name);
  if (const fs::path known = KnownAreas(areas); !options_.new_tissue && !known.empty()) {
    work.tissue = slide::ReadGeoJson(known, events_.note);
    if (!options_.tissue.keep_holes) {
      Notify(events_.note,
             FormatShown("{}: its areas are used as they are; --fill-holes needs --new-tissue", known.string()));
    }
  } else {
    work.tissue = slide::FindTissue(*work.slide, options_.tissue);
    SlideFolder::Prepare(areas);
    slide::WriteGeoJson(areas, AsFeatures(work.tissue));
  }
  const slide::SlideFacts& facts = work.slide->facts();
  if (facts.mpp_x && facts.mpp_y) work.state.tissue = AreaOf(work.tissue) * *facts.mpp_x * *facts.mpp_y * 1e-6;
  image::Image overview = slide::ReadOverview(*work.slide, kThumbnailSide, damaged);
  WritePicture(folder_.Thumbnail(name), overview);
  WritePicture(folder_.Contours(name), DrawTissue(std::move(overview), facts, work.tissue));
}

void SlideJobs::PlanTiles(Work& work) {
  const Stopwatch watch(work.state.seconds["tiles"]);
  work.grid = slide::PlanGrid(work.slide->facts(), work.tissue, options_.grid);
  work.state.tiles = std::ssize(work.grid.coords);
  if (work.grid.coords.empty()) {
    Notify(events_.note,
           FormatShown("{}: no tile shows enough tissue (--min-tissue {}); its areas are in {}",
                       work.entry.path.string(), options_.grid.min_tissue, folder_.Tissue(work.entry.name).string()));
  }
}

// After the vectors: where those of another grid may not be replaced, the places of their tiles stay too.
void SlideJobs::SavePlaces(const Work& work) const {
  const fs::path file = folder_.Coords(work.entry.name);
  SlideFolder::Prepare(file);
  slide::WriteCoords(file, work.grid.coords, CoordAttributes(work.grid, work.slide->facts(), work.entry.name, folder_));
}

void SlideJobs::SaveTiles(Work& work) {
  const fs::path parent = folder_.root() / "tiles" / work.entry.name;
  SlideFolder::Prepare(parent / "x");
  std::mutex mutex;
  if (events_.begin) events_.begin(work.entry.name, work.state.tiles);
  ParallelTasks(work.state.tiles, [&](int64_t i, int) {
    const auto tile = static_cast<size_t>(i);
    const auto [x, y] = work.grid.coords[tile];
    std::string problem;
    try {
      image::Image pixels;
      slide::ReadTile(*work.slide, work.grid, tile, pixels);
      image::WritePng(parent / fmt::format("{}_{}.png", x, y), pixels);
    } catch (const slide::DamagedRegion& error) {
      problem = error.what();
    }
    const std::lock_guard lock(mutex);
    if (!problem.empty()) Damage(work, problem);
    if (events_.advance) events_.advance(1);
  });
}

void SlideJobs::Damage(Work& work, const std::string& why) {
  ++work.state.damaged;
  if (work.state.problems.size() < kProblemsKept) work.state.problems.push_back(why);
  Notify(events_.note, why);
}

void SlideJobs::MakeFeatures(Work& work) {
  const Stopwatch watch(work.state.seconds["features"]);
  FeatureMaker maker{.slide = *work.slide,
                     .grid = work.grid,
                     .name = work.entry.name,
                     .path = work.entry.path,
                     .options = options_,
                     .folder = folder_,
                     .events = events_};
  work.features = maker.Make(*embedder_);
  work.state.damaged = work.state.tiles - std::ssize(work.features.coords);
  if (maker.from_file) {
    work.state.seconds["features"] += work.earlier.seconds["features"];
    work.state.problems = work.earlier.problems;
  }
  for (const auto& [tile, why] : maker.damaged) {
    if (work.state.problems.size() == kProblemsKept) break;
    work.state.problems.push_back(why);
  }
}

// As TRIDENT: the slide's vector beside the coordinates that it is of.
void SlideJobs::WriteSlideVector(const Work& work, const std::string& head, const mil::Answer& answer) const {
  const fs::path file = folder_.Answers(head, work.entry.name);
  SlideFolder::Prepare(file);
  const int64_t width = answer.vector.dim(answer.vector.rank() - 1);
  slide::FeatureFile made{.features = Tensor<float>({answer.vector.size() / width, width}),
                          .coords = work.features.coords,
                          .feature_attributes = {{"name", work.entry.name}, {"savetodir", file.parent_path().string()}},
                          .coord_attributes = work.features.coord_attributes};
  std::ranges::copy(answer.vector.span(), made.features.data());
  slide::WriteFeatureFile(file, made);
}

void SlideJobs::Answer(Work& work) {
  if (work.features.coords.empty()) return;
  for (const NamedHead& head : options_.heads) {
    const Stopwatch watch(work.state.seconds["answer"]);
    const mil::Answer answer =
        head.head->Forward(work.features.features, work.features.coords, work.grid.size_at_level0);
    work.state.answers[head.name] = Probabilities(*head.head, answer);
    if (!answer.vector.empty()) WriteSlideVector(work, head.name, answer);
    if (!options_.maps) continue;
    WriteMaps(*work.slide, work.features.coords, work.grid.size_at_level0, answer,
              folder_.Heatmaps(head.name) / work.entry.name);
  }
}

}  // namespace qkv::app
