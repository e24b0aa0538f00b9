// qkv embed: images or texts to vectors.
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

#include "cli/command.h"
#include "cli/images.h"
#include "cli/output.h"
#include "qkv/app/images/series.h"
#include "qkv/app/texts/texts.h"
#include "qkv/app/vectors/embedder.h"
#include "qkv/app/vectors/series_means.h"
#include "qkv/io/float_list.h"

namespace qkv::cli {
namespace {

struct EmbedOptions {
  ModelOptions model;
  ImageOptions images;
  std::string output, texts, series;
  std::vector<std::string> keep_header;
};

// Adds to the table if there is one, else prints, with elements of the header of the file.
void Write(const app::Embedding& embedding, const app::KeptHeader& header, const std::filesystem::path& file,
           std::optional<app::EmbeddingTable>& table) {
  if (table) return table->Add(embedding);
  io::Json line = ToJson(embedding);
  if (!header.empty()) line["header"] = header.Read(file);
  PrintJsonLine(line);
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

// The vectors of the slices of scans, or their means.
int EmbedSeries(const EmbedOptions& options, app::Embedder& embedder, const ImageList& files,
                const app::KeptHeader& header, std::optional<app::EmbeddingTable>& table) {
  const app::SeriesList series =
      app::FindSeries(files, [](const std::string& text) { PrintMessage("qkv: {}\n", EscapedText{text}); });
  app::SeriesMeans means(series, embedder.model().facts().has_text_tower());
  const int failed = WithProgress(options.images, series.images, [&](const app::PipelineOptions& pipeline) {
    return embedder.Images(series.images, pipeline, /*unit_length=*/true, [&](std::span<const app::Embedding> results) {
      for (const app::Embedding& slice : results) {
        if (options.series == "mean") {
          means.Add(slice);
        } else {
          Write(slice, header, series.slices[slice.file].file, table);
        }
      }
    });
  });
  for (const auto& [mean, file] : means.All()) Write(mean, header, file, table);
  return failed;
}

int EmbedImages(const EmbedOptions& options, app::Embedder& embedder) {
  embedder.model().Require("embed", app::kEmbedImages);
  Require(!options.images.paths.empty(), "embed: expected images, or texts by --text FILE");
  Require(options.keep_header.empty() || options.output.empty(),
          "embed: --keep-header goes with JSON Lines on stdout: arrays of -o have no room for it");
  const app::KeptHeader header(options.keep_header);
  std::optional<app::EmbeddingTable> table;
  if (!options.output.empty()) table.emplace(options.output, embedder.SourceOfImages());
  const ImageList images = CollectImages(options.images.paths);
  if (table) RequireOutputs(options, *table, images.files);
  const auto embed_each = [&] {
    return WithProgress(options.images, images, [&](const app::PipelineOptions& pipeline) {
      return embedder.Images(images, pipeline, /*unit_length=*/true, [&](std::span<const app::Embedding> results) {
        for (const app::Embedding& embedding : results) Write(embedding, header, images.files[embedding.file], table);
      });
    });
  };
  const int failed = options.series.empty() ? embed_each() : EmbedSeries(options, embedder, images, header, table);
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
      .AddOption(
          "--series", &options->series,
          "The images are scans in DICOM: slices of each series in their order in space, named FILE#FRAME where a "
          "file has several; mean: the mean of their vectors, named by the folder")
      .OneOf({"slices", "mean"});
  AddKeepHeader(command, &options->keep_header);
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
