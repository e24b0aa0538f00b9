// qkv slide heatmap: what a head, or anybody's scores, say of each tile of a slide: a picture, objects for QuPath, and
// a page to zoom into.
#include <memory>
#include <optional>

#include "cli/output.h"
#include "cli/progress.h"
#include "cli/slide_options.h"
#include "qkv/app/slides/slide_answers.h"
#include "qkv/app/slides/slide_maps.h"
#include "qkv/app/slides/slide_page.h"
#include "qkv/app/slides/slide_scores.h"
#include "qkv/core/file.h"

namespace qkv::cli {
namespace {

struct SlideHeatmapOptions {
  SlideOptions slides;
  std::string features, head, branch, scores, output;
  int64_t tile_side = 0;  // 0: the file says it
  app::SlideMapStyle style;
  bool page = false;
  double finest_mpp = slide::PyramidOptions().finest_mpp;
};

const std::map<std::string, slide::HeatValues>& ShownValues() {
  static const std::map<std::string, slide::HeatValues> values = [] {
    std::map<std::string, slide::HeatValues> names;
    for (const slide::HeatValues each : slide::kAllHeatValues) names[std::string(slide::HeatValuesName(each))] = each;
    return names;
  }();
  return values;
}

// Slides are renamed, so another name may be right.
void TellOtherName(const std::string& file, const slide::Attributes& attributes, const std::string& slide) {
  const auto found = attributes.find("name");
  const std::string* const name = found == attributes.end() ? nullptr : std::get_if<std::string>(&found->second);
  if (name == nullptr || *name == slide) return;
  PrintMessage("qkv: {}: its vectors are those of a slide {}, shown on {}\n", EscapedText{file}, EscapedText{*name},
               EscapedText{slide});
}

app::SlideScores ReadTileScores(const SlideHeatmapOptions& options, const std::string& slide,
                                const slide::SlideFacts& facts) {
  if (!options.scores.empty()) {
    Require(options.tile_side > 0, "slide heatmap: --scores needs --tile-side, in pixels of level 0");
    app::SlideScores scores = app::ReadScores(options.scores, options.tile_side);
    app::CheckSlideOfScores(scores, {}, facts);
    return scores;
  }
  Require(!options.features.empty() && !options.head.empty(),
          "slide heatmap: expected --features FILE.h5 and --head PATH, or --scores FILE.csv");
  slide::FeatureFile file = slide::ReadFeatureFile(options.features);
  const int64_t side =
      app::TileSide(file, facts, options.tile_side > 0 ? std::optional(options.tile_side) : std::nullopt);
  const slide::Attributes attributes = file.coord_attributes;
  TellOtherName(options.features, attributes, slide);
  app::SlideScores scores =
      app::ScoreTiles(std::move(file), side, *app::OpenHeads({options.head}).front().head, options.branch);
  app::CheckSlideOfScores(scores, attributes, facts);
  return scores;
}

// The slide's file at this moment: pictures of another are not taken over.
std::string SourceOf(const std::filesystem::path& slide) {
  if (std::filesystem::is_directory(slide)) return slide.filename().string();
  const FileStamp stamp = ReadFileStamp(slide);
  return FormatShown("{}, {} bytes, {}", slide.filename().string(), stamp.size, stamp.modified);
}

std::filesystem::path WritePage(const SlideHeatmapOptions& options, const app::SlideEntry& entry,
                                const slide::Slide& slide, const app::SlideScores& scores) {
  std::optional<Progress> progress;
  const std::filesystem::path folder = options.output + "_page";
  const app::SlidePageOptions page{
      .title = entry.name,
      .pyramid = {.finest_mpp = options.finest_mpp,
                  .source = SourceOf(entry.path),
                  .begin = [&](int64_t pictures) { progress.emplace(pictures, "pictures", options.slides.quiet); },
                  .advance = [&](int64_t pictures) { progress->Advance(pictures); }},
      .style = options.style,
      .answers = scores.answers};
  const slide::Pyramid pyramid = app::WriteSlidePage(slide, scores.tiles(), page, folder);
  progress.reset();
  if (!pyramid.damaged.empty()) {
    PrintMessage("qkv: {} parts of {} cannot be read and are grey: {}\n", pyramid.damaged.size(), entry.path.string(),
                 EscapedText{pyramid.damaged.front().why});
  }
  return folder / "index.html";
}

int SlideHeatmap(SlideHeatmapOptions& options) {
  if (options.page) app::RequireSlidePage();
  const std::vector<app::SlideEntry> slides = options.slides.Slides();
  Require(slides.size() == 1, "slide heatmap: expected one slide, got {}", slides.size());
  const app::SlideEntry& entry = slides.front();
  const auto slide = slide::OpenSlide(entry.path, {.openslide = options.slides.openslide, .mpp = entry.mpp});
  const app::SlideScores scores = ReadTileScores(options, entry.name, slide->facts());
  const std::filesystem::path png = options.output + ".png", areas = options.output + ".geojson.gz";
  app::WriteHeatmap(*slide, scores.tiles(), options.style, png,
                    [](const std::string& why) { PrintMessage("qkv: {}\n", EscapedText{why}); });
  app::WriteHeatAreas(scores.tiles(), options.style, areas);
  io::Json json = {
      {"slide", entry.path.string()}, {"tiles", scores.coords.size()}, {"files", {png.string(), areas.string()}}};
  if (!scores.answers.empty()) json["answers"] = scores.answers;
  if (options.page) json["files"].push_back(WritePage(options, entry, *slide, scores).string());
  PrintJsonLine(json);
  return 0;
}

}  // namespace

void RegisterSlideHeatmap(Command app, int* exit_code) {
  const auto options = std::make_shared<SlideHeatmapOptions>();
  const Command command = app.AddCommand("heatmap", "Show where a head looked on a slide, from vectors that exist");
  options->slides.AddReading(command);
  const Option features =
      command.AddOption("--features", &options->features, "Vectors of its tiles: features_ENCODER/NAME.h5")
          .TypeName("FILE");
  const Option head =
      command
          .AddOption(
              "--head", &options->head,
              "A checkpoint of CLAM's or FEATHER's, also by its name in the hub's cache, or a run of qkv slide train")
          .TypeName("PATH");
  command
      .AddOption(
          "--branch", &options->branch,
          "Class (name or number from 0) whose attention is shown, of heads with several (default: the answer's)")
      .TypeName("NAME");
  command
      .AddOption("--scores", &options->scores,
                 "Or scores of your own: CSV with the columns x, y (at level 0) and score")
      .TypeName("FILE")
      .Excludes(features)
      .Excludes(head);
  command
      .AddOption("--tile-side", &options->tile_side,
                 "Side of a tile in pixels of level 0, where the file does not say it")
      .Range(int64_t{1}, int64_t{1'000'000})
      .TypeName("PIXELS");
  command
      .AddOption("-o,--output", &options->output,
                 "Writes NAME.png, NAME.geojson.gz for QuPath and, with --page, the folder NAME_page")
      .TypeName("NAME")
      .Required();
  command
      .AddOption(
          "--show", [options](const std::string& name) { options->style.values = ShownValues().at(name); },
          "What the picture shows (default: blurred): scores, their ranks, or ranks smoothed")
      .OneOf(ShownValues());
  command.AddOption("--opacity", &options->style.opacity, "Opacity of the colours").Range(0.0, 1.0).ShowDefault();
  command.AddOption("--side", &options->style.side, "Longer side of the picture in pixels")
      .Range(int64_t{100}, int64_t{4000})
      .ShowDefault();
  command.AddFlag("--areas", &options->style.areas, "For QuPath: areas of about equal rank instead of each tile");
  command.AddFlag("--page", &options->page, "Also a page to zoom into, which works from a disk: NAME_page/index.html");
  command
      .AddOption(
          "--finest-mpp", &options->finest_mpp,
          "Microns a pixel of the page's finest level: 0.25 shows all of a slide of 40 ×, and takes 16 times the "
          "space of 1")
      .Range(0.05, 100.0)
      .ShowDefault()
      .TypeName("MICRONS");
  command.Footer(
      "Examples:\n"
      "  qkv slide heatmap a.svs --features results/20x_256px_0px_overlap/features_UNI2-h/a.h5 --head head/ -o a "
      "--page\n"
      "  qkv slide heatmap a.svs --scores mine.csv --tile-side 512 --show raw -o a");
  command.Callback([options, exit_code] {
    if (!options->scores.empty()) options->style.what = "score";
    *exit_code = SlideHeatmap(*options);
  });
}

}  // namespace qkv::cli
