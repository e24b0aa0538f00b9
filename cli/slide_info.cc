// qkv slide info: what a slide says of itself.
#include <memory>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/slide_options.h"
#include "qkv/core/file.h"
#include "qkv/image/encode.h"

namespace qkv::cli {
namespace {

struct SlideInfoOptions {
  SlideOptions slides;
  std::string associated, output;
  bool json = false;
};

io::Json LevelJson(const slide::Level& level) {
  return {{"width", level.width}, {"height", level.height}, {"downsample", level.downsample}};
}

io::Json FactsJson(const app::SlideEntry& entry, const slide::SlideFacts& facts) {
  io::Json json = {
      {"path", entry.path.string()}, {"name", entry.name}, {"format", facts.format}, {"reader", facts.reader}};
  if (facts.mpp_x) json["mpp_x"] = *facts.mpp_x;
  if (facts.mpp_y) json["mpp_y"] = *facts.mpp_y;
  if (facts.magnification) json["magnification"] = *facts.magnification;
  for (const slide::Level& level : facts.levels) json["levels"].push_back(LevelJson(level));
  json["associated"] = facts.associated;
  return json;
}

void PrintFacts(const app::SlideEntry& entry, const slide::SlideFacts& facts) {
  Print("{}: {}, read by {}\n", entry.path.string(), facts.format, facts.reader);
  if (facts.mpp_x && facts.mpp_y) {
    Print("  {:.4g} × {:.4g} microns a pixel\n", *facts.mpp_x, *facts.mpp_y);
  } else {
    Print("  microns a pixel unknown: --mpp-file gives them\n");
  }
  if (facts.magnification) Print("  {:g} ×\n", *facts.magnification);
  for (size_t i = 0; i < facts.levels.size(); ++i) {
    const slide::Level& level = facts.levels[i];
    Print("  level {}: {} × {}, 1/{:g}\n", i, level.width, level.height, level.downsample);
  }
  std::string names;
  for (const std::string& name : facts.associated) names += (names.empty() ? "" : ", ") + name;
  if (!names.empty()) Print("  beside it: {} (--associated; they may show names of patients)\n", names);
}

void SaveAssociated(const slide::Slide& slide, const SlideInfoOptions& options) {
  image::WritePng(options.output, slide.ReadAssociated(options.associated));
  PrintMessage("qkv: {} is written; it may show a patient's name\n", EscapedText{options.output});
}

int SlideInfo(const SlideInfoOptions& options) {
  const std::vector<app::SlideEntry> slides = options.slides.Slides();
  Require(options.associated.empty() == options.output.empty(), "slide info: --associated and -o go together");
  Require(options.associated.empty() || slides.size() == 1, "slide info: --associated takes one slide, got {}",
          slides.size());
  int failed = 0;
  for (const app::SlideEntry& entry : slides) {
    try {
      const auto slide = slide::OpenSlide(entry.path, {.openslide = options.slides.openslide, .mpp = entry.mpp});
      if (options.json) {
        PrintJsonLine(FactsJson(entry, slide->facts()));
      } else {
        PrintFacts(entry, slide->facts());
      }
      if (!options.associated.empty()) SaveAssociated(*slide, options);
    } catch (const Error& error) {
      if (slides.size() == 1) throw;
      PrintMessage("qkv: {}\n", EscapedText{error.what()});
      ++failed;
    }
  }
  return failed > 0 ? 1 : 0;
}

}  // namespace

void RegisterSlideInfo(Command app, int* exit_code) {
  const auto options = std::make_shared<SlideInfoOptions>();
  const Command command = app.AddCommand("info", "Levels, scale and format of slides");
  options->slides.AddReading(command);
  command.AddFlag("--json", &options->json, "A line of JSON for each slide");
  command
      .AddOption("--associated", &options->associated,
                 "Write one of the pictures beside the slide, such as label or macro, which may show a patient's name")
      .TypeName("NAME");
  command.AddOption("-o,--output", &options->output, "That picture as PNG").TypeName("FILE");
  command.Callback([options, exit_code] { *exit_code = SlideInfo(*options); });
}

}  // namespace qkv::cli
