// qkv segment: masks of objects and regions in photos, as text, JSON, pictures, maps of ids and COCO's results.
#include "qkv/app/detection/segment.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "cli/command.h"
#include "cli/image_outputs.h"
#include "cli/images.h"
#include "cli/output.h"
#include "qkv/app/detection/detect.h"
#include "qkv/app/open/labels.h"
#include "qkv/core/file_set.h"
#include "qkv/image/encode.h"

namespace qkv::cli {
namespace {

namespace fs = std::filesystem;

struct SegmentOptions {
  ModelOptions model;
  ImageOptions images;
  std::string task, output, ids, coco, stuff;
  std::optional<double> threshold, mask_threshold, overlap;
  bool json = false;
};

void PrintText(const app::PhotoSegments& photo) {
  Print("{}\n", photo.path);
  const std::vector<app::Segment>& segments = photo.segmentation.segments;
  if (segments.empty()) Print("  no segment\n");
  const auto name = [&](size_t i) { return app::ShownLabel(photo.labels[i], segments[i].index); };
  size_t width = 0;
  for (size_t i = 0; i < segments.size(); ++i) width = std::max(width, name(i).size());
  const auto pixels = static_cast<double>(photo.photo.height() * photo.photo.width());
  for (size_t i = 0; i < segments.size(); ++i) {
    const app::Segment& segment = segments[i];
    const double share = 100 * static_cast<double>(segment.area) / pixels;
    if (segment.token < 0) {
      Print("  {:<{}}  {:6.2f} % of the photo\n", name(i), width, share);
      continue;
    }
    const app::PixelBox& box = segment.box;
    // What `qkv attend --query` calls the token that found it.
    Print("  {:6.2f} %  {:<{}}  at {},{}  {} x {}  {:6.2f} % of the photo  mask{}\n", 100 * segment.score, name(i),
          width, box.left, box.top, box.right - box.left, box.bottom - box.top, share, segment.token);
  }
}

app::SegmentRules MakeRules(const SegmentOptions& options, const model::Model& model) {
  app::SegmentRules rules;
  rules.task = app::DefaultTask(model);
  if (!options.task.empty()) rules.task = *app::FindSegmentTask(options.task);
  const bool panoptic = rules.task == app::SegmentTask::kPanoptic;
  Require(!options.threshold || rules.task != app::SegmentTask::kSemantic,
          "segment: --threshold needs segments with scores; semantic segmentation gives every pixel its best class");
  Require(panoptic || (!options.mask_threshold && !options.overlap && options.stuff.empty()),
          "segment: --mask-threshold, --overlap and --stuff are for --task panoptic, got {}", app::Name(rules.task));
  rules.threshold = options.threshold.value_or(rules.threshold);
  rules.mask_threshold = options.mask_threshold.value_or(rules.mask_threshold);
  rules.overlap = options.overlap.value_or(rules.overlap);
  rules.stuff = app::ParseClasses(options.stuff, model, "--stuff");
  return rules;
}

int Segment(const SegmentOptions& options) {
  Require(!options.model.path.empty(),
          "segment: give a model of masks by -m, such as tue-mps/coco_panoptic_eomt_large_640; the built-in model "
          "classifies digits only");
  const ImageList images = CollectImages(options.images.paths);
  const std::vector<fs::path> pictures = PngOutputs("segment", "-o", options.output, options.model, images.files);
  const std::vector<fs::path> maps = PngOutputs("segment", "--ids", options.ids, options.model, images.files);
  app::InputFiles inputs = InputsOf(options.model);
  inputs.Add(images.files);
  for (const fs::path& file : pictures) inputs.RequireOutput(file);
  for (const fs::path& file : maps) inputs.RequireOutput(file);
  inputs.RequireOutput(options.coco);
  const app::AnyModel opened = OpenModel(options.model);
  opened.Require("segment", app::kSegment);
  const model::Model model = opened.BuildImages();
  const app::SegmentRules rules = MakeRules(options, model);
  Require(options.coco.empty() || rules.task != app::SegmentTask::kPanoptic || !maps.empty(),
          "segment: COCO's panoptic results refer to maps of ids: give --ids too");
  std::vector<int64_t> image_ids;
  if (!options.coco.empty()) image_ids = app::CocoImageIds(images.files, PrintNote);
  app::CocoSegments results(model, rules.task);
  const bool panoptic = rules.task == app::SegmentTask::kPanoptic && !options.coco.empty();
  bool withdrawn = false;
  const int failed = WithProgress(options.images, images, [&](const app::PipelineOptions& pipeline) {
    return app::SegmentAll(model, images, {.rules = rules, .pipeline = pipeline},
                           [&](size_t file, const app::PhotoSegments& photo) {
                             if (options.json) {
                               PrintJsonLine(ToJson(photo));
                             } else {
                               PrintText(photo);
                             }
                             FlushOutput();
                             if (!pictures.empty()) image::WritePng(pictures[file], DrawSegments(photo));
                             if (!maps.empty()) {
                               // COCO's file refers to the maps: it exists only while all maps are of one run.
                               if (panoptic && !std::exchange(withdrawn, true)) WithdrawFile(options.coco);
                               WriteFile(maps[file], EncodeIds(photo));
                             }
                             if (!options.coco.empty())
                               results.Add(photo, image_ids[file], maps.empty() ? fs::path() : maps[file]);
                           });
  });
  if (!options.coco.empty()) results.Write(options.coco);
  return failed > 0 ? 1 : 0;
}

}  // namespace

void RegisterSegment(Command app, int* exit_code) {
  const auto options = std::make_shared<SegmentOptions>();
  const Command command = app.AddCommand("segment", "Find masks of objects and regions in photos, by EoMT");
  options->model.AddModel(command);
  options->model.AddSize(command);
  options->model.AddCompute(command);
  options->images.AddReading(command);
  command
      .AddOption("--task", &options->task,
                 "A class for each pixel, objects that may overlap, or objects and regions that do not (default: "
                 "semantic if the model splits photos into squares, else panoptic)")
      .OneOf({"semantic", "instance", "panoptic"});
  command
      .AddOption("-o,--output", &options->output,
                 "Draw the segments: a .png; for several photos a folder, or a name with {} for the photo's")
      .TypeName("FILE");
  command
      .AddOption(
          "--ids", &options->ids,
          "Maps of ids, likewise: of classes (semantic) or of segments from 1 (instance: grey, panoptic: RGB, id "
          "= R + 256 G + 65536 B, as COCO's)")
      .TypeName("FILE");
  command
      .AddOption("--coco", &options->coco,
                 "Write COCO's results, of panoptic segments its panoptic format, which needs --ids; image_id is the "
                 "number that a photo's name is, or its place from 1; category_id is the class's index")
      .TypeName("FILE");
  command.AddOption("--threshold", &options->threshold, "Least score of a segment (default: 0.8)")
      .Range(0.0, 1.0)
      .TypeName("P");
  command
      .AddOption("--mask-threshold", &options->mask_threshold,
                 "Panoptic: least probability of a segment's pixels (default: 0.5)")
      .Range(0.0, 1.0)
      .TypeName("P");
  command
      .AddOption("--overlap", &options->overlap,
                 "Panoptic: least share of a mask that is left beside better ones (default: 0.8)")
      .Range(0.0, 1.0)
      .TypeName("R");
  command
      .AddOption("--stuff", &options->stuff,
                 "Panoptic: classes, by name or index, whose segments become one: sky,grass,119")
      .TypeName("LIST");
  command.AddFlag("--json", &options->json, "JSON Lines on stdout");
  command.Callback([options, exit_code] { *exit_code = Segment(*options); });
}

}  // namespace qkv::cli
