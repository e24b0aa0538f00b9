#include "cli/slide_options.h"

#include <memory>
#include <optional>

#include "cli/output.h"
#include "cli/progress.h"
#include "qkv/app/slides/slide_summary.h"

namespace qkv::cli {
namespace {

constexpr std::string_view kSlidesGroup = "Slides", kTilesGroup = "Tiles", kTissueGroup = "Tissue";

void PrintSlideNote(const std::string& text) {
  Progress::ClearShown();
  PrintMessage("qkv: {}\n", EscapedText{text});
}

}  // namespace

void SlideOptions::AddReading(Command command) {
  command
      .AddOption("SLIDE", &paths,
                 "Slides, folders of slides (searched recursively); DICOM files of a folder are one slide")
      .Required();
  command
      .AddOption("--mpp-file", &mpp_file,
                 "CSV with the columns wsi and mpp: microns a pixel of slides that do not say, by name")
      .TypeName("FILE")
      .Group(kSlidesGroup);
  command
      .AddOption(
          "--openslide", &openslide,
          "The library libopenslide.so.1 or .so.0, or its folder, for what is no TIFF (default: the system's, or "
          "that of Python's package openslide-bin)")
      .TypeName("PATH")
      .Group(kSlidesGroup);
  AddQuiet(command, &quiet);
}

void SlideOptions::AddTo(Command command) {
  AddReading(command);
  command.AddOption("-o,--output", &output, "Folder of the results, as TRIDENT lays them out")
      .TypeName("FOLDER")
      .Required();
  command
      .AddOption("--shard", &shard,
                 "Only a part of the slides, such as 2/8: for a cluster's array jobs, into one folder")
      .TypeName("I/N")
      .Group(kSlidesGroup);
  const Option by_magnification = command.AddOption("--mag", &magnification, "Magnification of the tiles (default: 20)")
                                      .Range(0.1, 200.0)
                                      .TypeName("X")
                                      .Group(kTilesGroup);
  command.AddOption("--mpp", &mpp, "Or microns a pixel of the tiles, such as 0.5")
      .Range(0.01, 100.0)
      .TypeName("MICRONS")
      .Group(kTilesGroup)
      .Excludes(by_magnification);
  command.AddOption("--tile", &job.grid.tile, "Side of a tile in its pixels")
      .Range(int64_t{8}, int64_t{8192})
      .ShowDefault()
      .Group(kTilesGroup);
  command.AddOption("--overlap", &job.grid.overlap, "Overlap of neighbouring tiles in their pixels")
      .Range(int64_t{0}, int64_t{8191})
      .ShowDefault()
      .Group(kTilesGroup);
  command.AddOption("--min-tissue", &job.grid.min_tissue, "Part of a tile that is tissue at least; 0: any")
      .Range(0.0, 1.0)
      .ShowDefault()
      .Group(kTilesGroup);
  command
      .AddFlag("--new-tissue", &job.new_tissue,
               "Find tissue again; else areas of contours_geojson/ are used, also edited ones")
      .Group(kTissueGroup);
  command.AddFlag("--fill-holes", &fill_holes, "Holes in tissue are tissue").Group(kTissueGroup);
}

std::vector<app::SlideEntry> SlideOptions::Slides() const {
  std::vector<app::SlideEntry> slides = app::CollectSlides(paths, mpp_file, PrintSlideNote);
  if (!shard.empty()) slides = app::TakeShard(slides, app::ParseShard(shard, "--shard"));
  return slides;
}

const app::SlideJobOptions& SlideOptions::Job() {
  job.output = output;
  job.openslide = openslide;
  job.grid.magnification = magnification;
  job.grid.mpp = mpp;
  job.tissue.keep_holes = !fill_holes;
  Require(job.grid.overlap < job.grid.tile, "slide: --overlap {} is not below --tile {}", job.grid.overlap,
          job.grid.tile);
  return job;
}

int RunSlides(SlideOptions& options, app::Embedder* embedder) {
  const std::vector<app::SlideEntry> slides = options.Slides();
  std::optional<Progress> progress;
  size_t number = 0;
  const app::SlideEvents events = {.note = PrintSlideNote,
                                   .begin =
                                       [&](const std::string& slide, int64_t tiles) {
                                         const std::string unit =
                                             FormatShown("tiles of {} ({} of {})", slide, number, slides.size());
                                         progress.emplace(tiles, unit, options.quiet);
                                       },
                                   .advance = [&](int64_t tiles) { progress->Advance(tiles); }};
  app::SlideJobs jobs(options.Job(), embedder, events);
  int failed = 0;
  for (const app::SlideEntry& slide : slides) {
    ++number;
    const app::SlideState state = jobs.Run(slide);
    progress.reset();
    failed += !state.error.empty();
    PrintJsonLine(ToJson(state));
    FlushOutput();
  }
  if (!slides.empty()) app::WriteSummary(jobs.folder());
  if (failed > 0)
    PrintMessage("qkv: {} of {} slides failed; {} has the reasons\n", failed, slides.size(),
                 (jobs.folder().root() / "summary.html").string());
  return failed > 0 ? 1 : 0;
}

}  // namespace qkv::cli
