// qkv caption: texts about photos, by an image encoder and a decoder that cross-attends to its tokens.
#include "qkv/app/texts/caption.h"

#include <algorithm>
#include <memory>
#include <span>

#include "cli/command.h"
#include "cli/images.h"
#include "cli/output.h"
#include "cli/writing.h"
#include "qkv/app/open/json_line.h"
#include "qkv/core/file.h"
#include "qkv/core/lines.h"
#include "qkv/core/text.h"

namespace qkv::cli {
namespace {

struct CaptionOptions {
  ModelOptions model;
  ImageOptions images;
  DecodingOptions decoding;
  std::string output;
  bool json = false;
};

// Keeps a text, which may hold line ends, on one line.
std::string OneLine(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c == '\n' || c == '\r' || c == '\t'; }, ' ');
  return Printable(Trim(text));
}

// One image: its text alone. Several: a line for each image, with its name.
std::string LineOf(const app::Caption& caption, bool json, bool single, size_t path_width) {
  if (json) return app::JsonLine(ToJson(caption)) + '\n';
  if (single) return OneLine(caption.text) + '\n';
  return FormatShown("{:<{}}  {}\n", caption.path, path_width, OneLine(caption.text));
}

int WriteCaptions(const CaptionOptions& options) {
  const ImageList images = CollectImages(options.images.paths);
  app::InputFiles inputs = InputsOf(options.model);
  inputs.Add(images.files);
  inputs.RequireOutput(options.output);
  const app::AnyModel opened = OpenModel(options.model);
  opened.Require("caption", app::kWriteCaption);
  const model::CaptionModel model = opened.BuildCaptions();
  const app::Captioner captioner(model, options.model.path, PrintNote);
  app::CaptionOptions caption{.settings = options.decoding.Over(captioner.Settings()), .pipeline = {}};
  const bool single = images.files.size() == 1;
  size_t path_width = 0;
  for (const auto& file : images.files) path_width = std::max(path_width, file.string().size());
  std::string out;
  UnfinishedTexts unfinished;
  const auto show = [&](std::span<const app::Caption> captions) {
    for (const app::Caption& one : captions) {
      out += LineOf(one, options.json, single, path_width);
      unfinished.Add(one.ended, one.tokens);
    }
    if (!options.output.empty()) return;
    PrintRaw(std::exchange(out, {}));
    FlushOutput();
  };
  const int failed = WithProgress(options.images, images, [&](const app::PipelineOptions& pipeline) {
    caption.pipeline = pipeline;
    return captioner.Write(images, caption, show);
  });
  unfinished.Print();
  if (!options.output.empty()) {
    Require(unfinished.texts > 0, "caption: no image could be read, nothing was written");
    WriteFile(options.output, out);
  }
  return failed > 0 ? 1 : 0;
}

}  // namespace

void RegisterCaption(Command app, int* exit_code) {
  const auto options = std::make_shared<CaptionOptions>();
  const Command command = app.AddCommand("caption", "Write what photos show, or the line of text in them");
  command
      .AddOption(
          "-m,--model", [options](const std::string& text) { options->model.path = app::FindModel(text).string(); },
          "Folder of a model with an image encoder and a decoder (ViT with GPT-2, TrOCR), or its name in the Hugging "
          "Face hub's cache")
      .Required()
      .TypeName("MODEL");
  options->images.AddTo(command);
  options->decoding.AddSearch(command,
                              "Greatest number of tokens of a text (default: as the model's files say, else 256)");
  options->decoding.AddSampling(command);
  command.AddOption("-o,--output", &options->output, "File to write (default: standard output)").TypeName("FILE");
  command.AddFlag("--json", &options->json, "JSON Lines, with scores and numbers of tokens");
  options->model.AddSize(command);
  options->model.AddCompute(command);
  options->model.AddStrict(command);
  AddMaxMemory(command);
  command.Footer(
      "Examples:\n"
      "  qkv caption -m nlpconnect/vit-gpt2-image-captioning photo.jpg\n"
      "  qkv caption -m trocr-base-printed --json lines/ > lines.jsonl");
  command.Callback([options, exit_code] { *exit_code = WriteCaptions(*options); });
}

}  // namespace qkv::cli
