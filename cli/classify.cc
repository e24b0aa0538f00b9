// qkv classify: images to classes.
#include "qkv/app/images/classify.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>

#include "cli/command.h"
#include "cli/images.h"
#include "cli/output.h"
#include "cli/rows_file.h"
#include "qkv/app/images/series.h"
#include "qkv/app/open/labels.h"
#include "qkv/app/texts/zero_shot.h"

namespace qkv::cli {
namespace {

struct ClassifyOptions {
  ModelOptions model;
  ImageOptions images;
  std::string prompts, output;
  std::vector<std::string> templates, keep_header;
  int64_t top = 0;  // 0: five for one image, one for several
  bool json = false, logits = false;
};

std::string FormatLabel(const model::Prediction& prediction) {
  return app::ShownLabel(prediction.label, prediction.index);
}

// One image: a line for each class. Several: a line for each image.
void PrintText(const app::Classification& image, bool single, size_t path_width) {
  if (single) {
    Print("{}\n", image.path);
    for (const auto& prediction : image.top) {
      Print("  {:6.2f} %  {}\n", 100 * prediction.score, FormatLabel(prediction));
    }
    return;
  }
  Print("{:<{}}", image.path, path_width);
  for (const auto& prediction : image.top) Print("  {:6.2f} %  {}", 100 * prediction.score, FormatLabel(prediction));
  Print("\n");
}

// A line for programs.
io::Json LineOf(const app::Classification& image, const app::KeptHeader& header) {
  io::Json line = ToJson(image);
  if (!header.empty()) line["header"] = header.Read(image.path);
  return line;
}

// A row of -o: the path, then each class with its score.
void Add(const app::Classification& image, const app::KeptHeader& header, app::ClassifyOptions how, RowsFile& rows) {
  if (!rows.is_csv()) return rows.AddLine(LineOf(image, header));
  std::vector<std::string> cells = {image.path};
  for (const model::Prediction& prediction : image.top) {
    cells.push_back(FormatLabel(prediction));
    cells.push_back(fmt::format("{}", prediction.score));
  }
  cells.resize(1 + 2 * static_cast<size_t>(how.top));  // fewer classes than --top
  rows.AddCells(cells);
}

std::optional<RowsFile> MakeRows(const ClassifyOptions& options, const ImageList& images, int64_t top) {
  if (options.output.empty()) return {};
  app::InputFiles inputs = InputsOf(options.model);
  inputs.Add(images.files);
  inputs.RequireOutput(options.output);
  RowsFile rows(options.output, "classify: -o");
  std::vector<std::string> names = {"path"};
  for (int64_t k = 1; k <= top; ++k) {
    names.push_back(fmt::format("class_{}", k));
    names.push_back(fmt::format("score_{}", k));
  }
  rows.Header(names);
  return rows;
}

int Classify(const ClassifyOptions& options) {
  Require(!options.logits || options.json || options.output.ends_with(".jsonl"),
          "classify: --logits needs --json or -o FILE.jsonl: a line for people has no room for them");
  Require(options.keep_header.empty() || options.json || options.output.ends_with(".jsonl"),
          "classify: --keep-header needs --json or -o FILE.jsonl");
  const app::KeptHeader header(options.keep_header);
  const app::AnyModel opened = OpenModel(options.model);
  if (!opened.facts().is_image()) opened.Require("classify", app::kClassify);
  const model::Checkpoint& checkpoint = opened.images();
  const bool by_prompts = !options.prompts.empty();
  Require(!checkpoint.description.decoder,
          "classify: {} writes texts about images and has no classes; try: qkv caption", checkpoint.source);
  Require(by_prompts || !checkpoint.description.text,
          "classify: the model compares images with texts; give the classes by --prompts \"a cat,a dog\"");
  Require(!by_prompts || checkpoint.description.text,
          "classify: --prompts needs a model with a text tower (CLIP, SigLIP); {} {}", checkpoint.source,
          checkpoint.description.config.projection_width > 0
              ? "is the image encoder alone: give the folder of the whole model, or try: qkv embed"
              : "has none");
  Require(by_prompts || options.templates.empty(), "classify: --template goes with --prompts");
  const ImageList images = CollectImages(options.images.paths);
  const bool single = images.files.size() == 1;
  size_t path_width = 0;
  for (const auto& file : images.files) path_width = std::max(path_width, file.string().size());
  const bool all = single || options.json || !options.output.empty();
  app::ClassifyOptions classify{.top = options.top > 0 ? options.top : all ? 5 : 1, .logits = options.logits};
  std::optional<RowsFile> rows = MakeRows(options, images, classify.top);
  const auto print = [&](std::span<const app::Classification> results) {
    for (const app::Classification& image : results) {
      if (rows) {
        Add(image, header, classify, *rows);
      } else if (options.json) {
        PrintJsonLine(LineOf(image, header));
      } else {
        PrintText(image, single, path_width);
      }
    }
    FlushOutput();
  };
  const auto run = [&](const auto& classify_all) {
    const int failed = WithProgress(options.images, images, [&](const app::PipelineOptions& pipeline) {
      classify.pipeline = pipeline;
      return classify_all();
    });
    if (rows) rows->Save();
    return failed > 0 ? 1 : 0;
  };
  if (!by_prompts) {
    const model::Model model = opened.BuildImages();
    return run([&] { return app::Classify(model, images, classify, print); });
  }
  const model::TwoTowerModel model = opened.BuildTowers(model::Towers::kBoth);
  const app::Prompts prompts = app::MakePrompts(options.prompts, options.templates);
  if (prompts.labels.size() == 1 && model.matching() == model::Matching::kSoftmax) {
    PrintNote("--prompts has one class, which always gets 100 %: the model shares 100 % among the classes given");
  }
  const Tensor<float> classes =
      app::EmbedPrompts(app::TextEncoder(model, options.model.path, PrintNote), prompts, PrintNote);
  return run([&] { return app::ClassifyByPrompts(model, prompts, classes, images, classify, print); });
}

}  // namespace

void RegisterClassify(Command app, int* exit_code) {
  const auto options = std::make_shared<ClassifyOptions>();
  const Command command = app.AddCommand("classify", "Say what images show");
  options->model.AddModel(command);
  options->model.AddSize(command);
  options->model.AddCompute(command);
  options->images.AddTo(command);
  command
      .AddOption(
          "--prompts", &options->prompts,
          "Classes in words, for a model with two towers (CLIP, SigLIP): \"a cat,a dog\", or a file with one a line")
      .TypeName("TEXTS");
  command
      .AddOption(
          "--template", &options->templates,
          "A text for each class, its words in place of {}, such as \"a photo of {}\"; of several the mean counts")
      .Repeatable()
      .TypeName("TEXT");
  command
      .AddOption("--top", &options->top,
                 "Classes to print for each image (default: 5 for one image, --json and -o, else 1)")
      .Range(int64_t{1}, int64_t{1} << 20)
      .TypeName("K");
  command
      .AddOption("-o,--output", &options->output,
                 "Write the classes of all images to a file instead: .csv (path, class_1, score_1, …) or .jsonl")
      .TypeName("FILE");
  command.AddFlag("--json", &options->json, "JSON Lines on stdout");
  AddKeepHeader(command, &options->keep_header);
  command.AddFlag("--logits", &options->logits, "All logits too, by --json or in -o FILE.jsonl");
  command.Footer(
      "Examples:\n"
      "  qkv classify -m google/vit-base-patch16-224 photo.jpg\n"
      "  qkv classify -m vit-base photos/ -o classes.csv           a table, a row for each image\n"
      "  qkv classify -m clip --prompts \"a cat,a dog\" photos/      classes in words");
  command.Callback([options, exit_code] {
    options->images.DigitsWithout(options->model, kClassifier);
    *exit_code = Classify(*options);
  });
}

}  // namespace qkv::cli
