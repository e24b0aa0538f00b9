// qkv attend: where a model looks, as pictures, arrays, JSON or a page to explore. Texts are in attend_texts.cc.
#include "qkv/app/attention/attend.h"

#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "cli/attend_texts.h"
#include "cli/command.h"
#include "cli/image_outputs.h"
#include "cli/images.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "qkv/app/attention/attend_page.h"
#include "qkv/app/attention/attention_files.h"
#include "qkv/app/models/model_title.h"

namespace qkv::cli {
namespace {

namespace fs = std::filesystem;

struct AllAttendOptions {
  ModelOptions model;
  ImageOptions images;
  std::string output, layers, head, query;
  bool rollout = false;
  double discard = 0;
  int start = 0;
  std::string upsampling = "bicubic";
  double opacity = app::MapStyle().opacity;
  int side = static_cast<int>(app::MapStyle().side);
  AttendTextOptions texts;
};

// The first option given that applies to images only; empty if there is none.
std::string GivenOfImages(const AllAttendOptions& options) {
  const AllAttendOptions usual;
  return options.rollout                          ? "--rollout"
         : !options.query.empty()                 ? "--query"
         : options.discard != 0                   ? "--discard"
         : options.start != 0                     ? "--start"
         : options.upsampling != usual.upsampling ? "--upsampling"
         : options.opacity != usual.opacity       ? "--opacity"
         : options.side != usual.side             ? "--side"
         : options.images.ignore_exif             ? "--ignore-exif"
         : !options.images.window.empty()         ? "--window"
                                                  : "";
}

int AttendAnyTexts(const AllAttendOptions& options, const app::AnyModel& opened) {
  const std::string given = GivenOfImages(options);
  Require(given.empty(), "attend: {} is for images, and {} is a text model; --layer and --head are for both", given,
          options.model.path);
  return AttendTexts({.model = options.model,
                      .inputs = options.images.paths,
                      .output = options.output,
                      .layers = options.layers,
                      .head = options.head,
                      .quiet = options.images.quiet},
                     options.texts, opened);
}

// "23.4 % to the class token, 1.2 % to register 0"; detection and query tokens, which may be many, together.
std::string PrefixShares(const app::AttentionMaps& maps) {
  std::string text;
  double to_detection = 0, to_queries = 0;
  int64_t detection = 0, queries = 0;
  const auto add = [&](double share, const std::string& name) {
    text += fmt::format("{}{:.1f} % to {}", text.empty() ? "" : ", ", 100 * share, name);
  };
  for (int64_t i = 0; i < maps.prefix(); ++i) {
    const double share = *maps.weights.view().at(0, 0, 0, i);
    const std::string& token = maps.grid.prefix[static_cast<size_t>(i)];
    if (token.starts_with("detection")) {
      to_detection += share, ++detection;
    } else if (token.starts_with("mask")) {
      to_queries += share, ++queries;
    } else {
      add(share, inspect::Describe({inspect::Query::Kind::kToken, i}, maps.grid));
    }
  }
  if (detection > 0) add(to_detection, fmt::format("{} detection tokens", detection));
  if (queries > 0) add(to_queries, fmt::format("{} query tokens", queries));
  return text;
}

void PrintSummary(const app::AttentionMaps& maps, const fs::path& output) {
  const bool one = maps.weights.size() == maps.grid.tokens();
  PrintMessage("{}: {}x{} patches, {}{}{}\n", output.string(), maps.grid.height, maps.grid.width,
               inspect::Describe(maps.query, maps.grid), one && maps.prefix() > 0 ? ": " : "",
               one ? PrefixShares(maps) : "");
}

app::AttendRequest MakeRequest(const AllAttendOptions& options, app::MapFormat format) {
  return {.layers = options.layers,
          .head = options.head,
          .query = options.query,
          .rollout = options.rollout,
          .discard = options.discard,
          .start = options.start,
          .format = format,
          .model = app::ModelTitle(options.model.path),
          .note = PrintNote};
}

int RunAttend(const AllAttendOptions& options) {
  const app::AnyModel opened = OpenModel(options.model);
  if (opened.facts().is_text()) return AttendAnyTexts(options, opened);
  if (options.images.paths.empty()) {
    PrintMessage("qkv attend: PATH is required: images, or texts for a text model\nRun with --help for more\n");
    return 2;
  }
  Require(options.texts.Given().empty(),
          "attend: {} is for texts, and {}; name a text model by -m, such as Marian or T5, BERT or GPT-2",
          options.texts.Given(),
          options.model.path.empty() ? "without -m the built-in image model answers"
                                     : FormatShown("{} is an image model", options.model.path));
  const ImageList images = CollectImages(options.images.paths);
  std::vector<fs::path> outputs;  // none: JSON on stdout
  if (!options.output.empty()) {
    if (!IsFolderOutput(options.output)) app::ParseOutputFormat(options.output);
    outputs = ImageOutputs("attend", options.output, options.model, images.files);
  }
  const app::MapFormat format = outputs.empty() ? app::MapFormat::kNpy : app::ParseOutputFormat(outputs.front());
  if (format == app::MapFormat::kHtml) app::RequireAttendPage();
  opened.Require("attend", app::kAttendImage);
  const model::Model model = opened.BuildImages();
  app::AttentionMapper mapper(model, MakeRequest(options, format));
  const app::MapStyle style{.upsampling = app::ParseUpsampling(options.upsampling, "--upsampling"),
                            .opacity = options.opacity,
                            .side = options.side};
  const image::DecodeOptions decode = options.images.Decode();
  Progress progress(static_cast<int64_t>(images.files.size()), "images", options.images.quiet);
  int failed = 0;
  for (size_t i = 0; i < images.files.size(); ++i) {
    try {
      progress.Clear();
      const app::AttentionMaps maps = mapper.Compute(images.files[i], decode);
      options.images.Inspect(images.files[i], maps.photo);
      if (outputs.empty()) {
        PrintJsonLine(ToJson(maps));
      } else {
        app::WriteMaps(maps, format, style, outputs[i]);
        PrintSummary(maps, outputs[i]);
      }
    } catch (const app::WrongImages&) {
      throw;
    } catch (const Error& error) {
      if (images.files.size() == 1) throw;
      const std::string path = images.files[i].string(), what = error.what();
      PrintMessage("qkv: {}{}\n", what.find(path) == std::string::npos ? path + ": " : "", what);
      ++failed;
    }
    progress.Advance(1);
  }
  progress.Clear();
  if (failed > 0) PrintMessage("qkv: {} of {} images failed\n", failed, images.files.size());
  return failed + images.failed > 0 ? 1 : 0;
}

}  // namespace

void RegisterAttend(Command app, int* exit_code) {
  const auto options = std::make_shared<AllAttendOptions>();
  const Command command =
      app.AddCommand("attend", "Show where a model looks, in images and texts: attention maps, rollout, alignments");
  options->model.AddModel(command);
  options->model.AddSize(command);
  options->model.AddCompute(command);
  options->images.AddReading(command, /*required=*/false);
  command.Find("PATH").Description(
      "Images, folders of images (read recursively), or - for stdin; for a text model words, or files of texts, "
      "one a line, or standard input");
  command
      .AddOption(
          "-o,--output", &options->output,
          ".png (overlay, or a sheet of several; for a text the matrix), .npy [layers, heads, queries, tokens], "
          ".safetensors, .json or .html; for several images or texts a folder, or a name with {} for the image's or "
          "the text's number; without it JSON Lines on stdout")
      .TypeName("FILE");
  command.AddOption("--layer", &options->layers, "Blocks from 0: 11 or 0,5,11 or all (default: the last; .html: all)")
      .TypeName("LIST|all");
  command
      .AddOption("--head", &options->head,
                 "Heads from 0: 3 or 0,3 or all; or mean, max or min of them (default: mean; .html: all)")
      .TypeName("LIST|all|mean|max|min");
  command
      .AddOption(
          "--query", &options->query,
          "Whose attention is shown: cls, dist, regI, detI (a detector's token), maskI (the token of a mask), ROW,COL "
          "(a patch from 0,0), mean of the patches, or all (default: cls, or mean where there is none)")
      .TypeName("TOKEN|cls|dist|mean|all");
  command.AddFlag("--rollout", &options->rollout, "Follow the attention through all blocks (Abnar and Zuidema 2020)");
  command.AddOption("--discard", &options->discard, "Rollout: fraction of each block's weights, the lowest, to drop")
      .Range(0.0, 0.999999)
      .TypeName("R");
  command.AddOption("--start", &options->start, "Rollout: the first block; the last is --layer")
      .NonNegative()
      .TypeName("L");
  command.AddOption("--upsampling", &options->upsampling, "How patches become pixels")
      .OneOf({"nearest", "bilinear", "bicubic"})
      .ShowDefault();
  command.AddOption("--opacity", &options->opacity, "Opacity of the colours over the photo")
      .Range(0.0, 1.0)
      .ShowDefault();
  command.AddOption("--side", &options->side, "Longer side of the picture in pixels")
      .Range(16, 8192)
      .TypeName("N")
      .ShowDefault();
  options->texts.AddTo(command);
  command.Footer(
      "Examples:\n"
      "  qkv attend -m vit-base -o map.png photo.jpg\n"
      "  qkv attend -m opus-mt-en-it --cross \"The house is green.\" -o alignment.html\n"
      "  qkv attend -m all-MiniLM-L6-v2 \"The house is green.\" --layer 3 --head all -o heads.png");
  command.Callback([options, exit_code] {
    options->images.DigitsWithout(options->model, kEncoder);
    *exit_code = RunAttend(*options);
  });
}

}  // namespace qkv::cli
