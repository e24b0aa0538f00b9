// qkv detect: objects in photos, as text, JSON, COCO's results and pictures.
#include "qkv/app/detection/detect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "cli/image_outputs.h"
#include "cli/images.h"
#include "cli/output.h"
#include "qkv/app/open/labels.h"
#include "qkv/image/encode.h"

namespace qkv::cli {
namespace {

namespace fs = std::filesystem;

struct DetectOptions {
  ModelOptions model;
  ImageOptions images;
  std::string output, coco;
  double threshold = 0.5;
  bool json = false;
};

void PrintText(const app::PhotoObjects& photo, double threshold) {
  Print("{}\n", photo.path);
  if (photo.objects.empty()) Print("  no object above {:g} %\n", 100 * threshold);
  const auto name = [](const app::DetectedObject& object) { return app::ShownLabel(object.label, object.index); };
  size_t width = 0;
  for (const app::DetectedObject& object : photo.objects) width = std::max(width, name(object).size());
  for (const app::DetectedObject& object : photo.objects) {
    const image::Rect& box = object.box;
    // det{}: the token's name in `qkv attend --query`.
    Print("  {:6.2f} %  {:<{}}  at {},{}  {} x {}  det{}\n", 100 * object.score, name(object), width,
          std::llround(box.left), std::llround(box.top), std::llround(box.width), std::llround(box.height),
          object.token);
  }
}

int Detect(const DetectOptions& options) {
  Require(!options.model.path.empty(),
          "detect: give a detector by -m, such as hustvl/yolos-tiny; the built-in model classifies digits only");
  const ImageList images = CollectImages(options.images.paths);
  const std::vector<fs::path> pictures = PngOutputs("detect", "-o", options.output, options.model, images.files);
  app::InputFiles inputs = InputsOf(options.model);
  inputs.Add(images.files);
  inputs.RequireOutput(options.coco);
  const app::AnyModel opened = OpenModel(options.model);
  opened.Require("detect", app::kDetect);
  const model::Model model = opened.BuildImages();
  std::vector<int64_t> ids;
  if (!options.coco.empty()) ids = app::CocoImageIds(images.files, PrintNote);
  std::vector<app::CocoDetection> results;
  const int failed = WithProgress(options.images, images, [&](const app::PipelineOptions& pipeline) {
    return app::DetectAll(model, images, {.threshold = options.threshold, .pipeline = pipeline},
                          [&](size_t file, const app::PhotoObjects& photo) {
                            if (options.json) {
                              PrintJsonLine(ToJson(photo));
                            } else {
                              PrintText(photo, options.threshold);
                            }
                            FlushOutput();
                            if (!pictures.empty()) image::WritePng(pictures[file], DrawObjects(photo));
                            if (options.coco.empty()) return;
                            for (const app::CocoDetection& result : app::ToCoco(photo, ids[file], {})) {
                              results.push_back(result);
                            }
                          });
  });
  if (!options.coco.empty()) app::WriteCocoDetections(options.coco, results);
  return failed > 0 ? 1 : 0;
}

}  // namespace

void RegisterDetect(Command app, int* exit_code) {
  const auto options = std::make_shared<DetectOptions>();
  const Command command = app.AddCommand("detect", "Find objects in photos, by a detector (YOLOS)");
  options->model.AddModel(command);
  options->model.AddSize(command);
  options->model.AddCompute(command);
  options->images.AddReading(command);
  command
      .AddOption("-o,--output", &options->output,
                 "Draw the boxes: a .png; for several photos a folder, or a name with {} for the photo's")
      .TypeName("FILE");
  command
      .AddOption(
          "--coco", &options->coco,
          "Write COCO's results: image_id is the number that a photo's name is, or its place from 1; category_id "
          "the model's class")
      .TypeName("FILE");
  command.AddOption("--threshold", &options->threshold, "Least score of an object")
      .Range(0.0, 1.0)
      .TypeName("P")
      .ShowDefault();
  command.AddFlag("--json", &options->json, "JSON Lines on stdout");
  command.Callback([options, exit_code] { *exit_code = Detect(*options); });
}

}  // namespace qkv::cli
