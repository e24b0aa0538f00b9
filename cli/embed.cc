// qkv embed: images or texts to vectors.
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include "cli/command.h"
#include "cli/images.h"
#include "cli/output.h"
#include "qkv/app/texts/texts.h"
#include "qkv/app/vectors/embedder.h"
#include "qkv/io/float_list.h"

namespace qkv::cli {
namespace {

struct EmbedOptions {
  ModelOptions model;
  ImageOptions images;
  std::string output, texts;
};

// Adds to the table if there is one, else prints.
void Write(std::span<const app::Embedding> results, std::optional<app::EmbeddingTable>& table) {
  for (const app::Embedding& embedding : results) {
    if (table) {
      table->Add(embedding);
    } else {
      PrintJsonLine(ToJson(embedding));
    }
  }
}

// The same for the vector of a text.
void WriteText(const app::Embedding& text, std::optional<app::EmbeddingTable>& table) {
  if (table) {
    table->Add(text);
  } else {
    PrintJsonLine({{"text", text.path}, {"embedding", io::FloatList(text.values)}});
  }
}

// Throws Error if an output of the table is a file that is read: the model's, or one of `read`.
void RequireOutputs(const EmbedOptions& options, const app::EmbeddingTable& table,
                    const std::vector<std::filesystem::path>& read) {
  app::InputFiles inputs = InputsOf(options.model);
  inputs.Add(read);
  for (const std::string& file : table.outputs()) inputs.RequireOutput(file);
}

int EmbedTexts(const EmbedOptions& options, app::Embedder& embedder) {
  embedder.model().Require("embed", app::kEmbedTexts);
  const std::string& pool = options.model.pool;
  Require(pool.empty() || pool == "model",
          "embed: --pool {} applies to images only; a text has one vector, as its model makes it", pool);
  const std::vector<std::string> texts = app::ReadTexts(options.texts);
  std::optional<app::EmbeddingTable> table;
  if (!options.output.empty()) {
    table.emplace(options.output, embedder.SourceOfTexts(), /*of_texts=*/true);
    RequireOutputs(options, *table, {{options.texts}});
  }
  for (const app::Embedding& text : embedder.Texts(texts)) WriteText(text, table);
  if (table) table->Save();
  return 0;
}

int EmbedImages(const EmbedOptions& options, app::Embedder& embedder) {
  embedder.model().Require("embed", app::kEmbedImages);
  Require(!options.images.paths.empty(), "embed: expected images, or texts by --text FILE");
  std::optional<app::EmbeddingTable> table;
  if (!options.output.empty()) table.emplace(options.output, embedder.SourceOfImages());
  const ImageList images = CollectImages(options.images.paths);
  if (table) RequireOutputs(options, *table, images.files);
  const int failed = WithProgress(options.images, images, [&](const app::PipelineOptions& pipeline) {
    return embedder.Images(images, pipeline, /*unit_length=*/true,
                           [&](std::span<const app::Embedding> results) { Write(results, table); });
  });
  if (table) table->Save();
  return failed > 0 ? 1 : 0;
}

int Embed(const EmbedOptions& options) {
  Require(options.texts.empty() || options.images.paths.empty(), "embed: --text takes the place of images");
  app::Embedder embedder("embed", OpenModel(options.model), PrintNote);
  return options.texts.empty() ? EmbedImages(options, embedder) : EmbedTexts(options, embedder);
}

}  // namespace

void RegisterEmbed(Command app, int* exit_code) {
  const auto options = std::make_shared<EmbedOptions>();
  const Command command = app.AddCommand("embed", "Turn images or texts into vectors");
  options->model.AddModel(command);
  options->model.AddSize(command);
  options->model.AddCompute(command);
  options->images.AddTo(command, /*required=*/false);
  command
      .AddOption("--pool", &options->model.pool,
                 "model (default): what the model's classifier sees; cls: the class token; mean: of the patches; "
                 "cls+mean: both, one after the other; tokens: all. Virchow, Virchow2 and Midnight: cls+mean, as their "
                 "authors do")
      .OneOf({"model", "cls", "mean", "cls+mean", "tokens"});
  command
      .AddOption("--text", &options->texts,
                 "Texts instead of images, one a line of this file or of standard input (-), by a text model (BERT, "
                 "MiniLM, T5's encoder) or with two towers (CLIP, SigLIP)")
      .TypeName("FILE");
  command
      .AddOption("-o,--output", &options->output,
                 "out.npy, out.safetensors or out.csv (not for search); without it JSON Lines on stdout")
      .TypeName("FILE");
  command.Footer(
      "Examples:\n"
      "  qkv embed -m facebook/dinov2-small photos/ -o photos.npy    for qkv search\n"
      "  qkv embed -m vit-base --pool mean photo.jpg                 JSON on stdout\n"
      "  qkv embed -m all-MiniLM-L6-v2 --text lines.txt -o texts.npy");
  command.Callback([options, exit_code] {
    options->images.DigitsWithout(options->model, kEncoder);
    *exit_code = Embed(*options);
  });
}

}  // namespace qkv::cli
