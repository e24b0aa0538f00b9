// qkv classify: images to classes.
#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "cli/command.h"
#include "cli/images.h"
#include "cli/output.h"
#include "qkv/io/json.h"

namespace qkv::cli {
namespace {

struct Options {
  ModelOptions model;
  ImageOptions images;
  int64_t top = 0;  // 0: five for one image, one for several
  bool json = false, logits = false;
};

std::string LabelOf(const model::Prediction& prediction) {
  return prediction.label.empty() ? fmt::format("class {}", prediction.index) : prediction.label;
}

void PrintJson(const std::string& path, const std::vector<model::Prediction>& predictions,
               std::span<const float> logits, bool with_logits) {
  io::Json line = {{"path", path}, {"top", io::Json::array()}};
  for (const model::Prediction& prediction : predictions) {
    line["top"].push_back({{"index", prediction.index}, {"label", prediction.label}, {"score", prediction.score}});
  }
  if (with_logits) line["logits"] = std::vector<float>(logits.begin(), logits.end());
  // A file name need not be UTF-8; what is not becomes U+FFFD.
  PrintJsonLine(line);
}

// One image: a line for each class. Several: a line for each image.
void PrintText(const std::string& path, const std::vector<model::Prediction>& predictions, bool single,
               size_t path_width) {
  if (single) {
    Print("{}\n", path);
    for (const auto& prediction : predictions) {
      Print("  {:6.2f} %  {}\n", 100 * prediction.score, LabelOf(prediction));
    }
    return;
  }
  Print("{:<{}}", path, path_width);
  for (const auto& prediction : predictions) {
    Print("  {:6.2f} %  {}", 100 * prediction.score, LabelOf(prediction));
  }
  Print("\n");
}

int Classify(const Options& options) {
  const model::Model model = LoadModel(options.model);
  Require(model.config().classes > 0, "classify: the model has no classifier; try: qkv embed");
  const ImageList images = CollectImages(options.images.paths);
  const bool single = images.files.size() == 1;
  size_t path_width = 0;
  for (const auto& file : images.files) path_width = std::max(path_width, file.string().size());
  const int64_t top = options.top > 0 ? options.top : single || options.json ? 5 : 1;
  const int failed = ForEachBatch(options.images, images, model, Wanted::kLogits, [&](const Batch& batch) {
    for (int64_t b = 0; b < batch.values.dim(0); ++b) {
      const std::span<const float> row(batch.values.row(b), static_cast<size_t>(batch.values.dim(1)));
      const auto predictions = model.Top(row, top);
      const std::string& path = batch.paths[static_cast<size_t>(b)];
      if (options.json) {
        PrintJson(path, predictions, row, options.logits);
      } else {
        PrintText(path, predictions, single, path_width);
      }
    }
    FlushOutput();
  });
  return failed > 0 ? 1 : 0;
}

}  // namespace

void RegisterClassify(Command app, int* exit_code) {
  const auto options = std::make_shared<Options>();
  const Command command = app.AddCommand("classify", "Say what images show");
  options->model.AddModel(command);
  options->model.AddSize(command);
  options->model.AddCompute(command);
  options->images.AddTo(command);
  command.AddOption("--top", &options->top, "Classes to print for each image (default: 5 for one image, else 1)")
      .Range(int64_t{1}, int64_t{1} << 20)
      .TypeName("K");
  const Option json = command.AddFlag("--json", &options->json, "JSON Lines on stdout");
  command.AddFlag("--logits", &options->logits, "All logits too, with --json").Needs(json);
  command.Callback([options, exit_code] { *exit_code = Classify(*options); });
}

}  // namespace qkv::cli
