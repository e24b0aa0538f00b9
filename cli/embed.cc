// qkv embed: images or texts to vectors.
#include "qkv/app/vectors/embed.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "cli/command.h"
#include "cli/images.h"
#include "cli/output.h"
#include "qkv/app/open/kinds.h"
#include "qkv/app/texts/language.h"
#include "qkv/app/texts/texts.h"
#include "qkv/core/parallel.h"
#include "qkv/io/float_list.h"

namespace qkv::cli {
namespace {

struct EmbedOptions {
  ModelOptions model;
  ImageOptions images;
  std::string pool, output, texts;  // pool empty: as the model's authors do, else "model"
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
void WriteText(const std::string& text, std::vector<float> vector, std::optional<app::EmbeddingTable>& table) {
  if (table) {
    table->Add({text, Shape({std::ssize(vector)}), std::move(vector)});
  } else {
    PrintJsonLine({{"text", text}, {"embedding", io::FloatList(vector)}});
  }
}

template <typename Checkpoint>
app::EmbeddingSource Source(const EmbedOptions& options, const Checkpoint& checkpoint, const std::string& pool) {
  return {.model = options.model.path,
          .weights = app::FingerprintWeights(*checkpoint.tensors),
          .pool = pool,
          .size = options.model.size,
          .settings = app::FingerprintSettings(checkpoint),
          .dtype = std::string(app::PrecisionName(ParsePrecision(options.model.dtype)))};
}

// --pool, else the pooling that the authors of a published model use.
std::string ChosenPool(const EmbedOptions& options, const model::Checkpoint& checkpoint) {
  if (!options.pool.empty()) return options.pool;
  const std::string authors = app::AuthorsPool(options.model.Parse(), checkpoint.description.config);
  if (authors.empty()) return "model";
  PrintNote(FormatShown("{}: --pool {}, as its authors embed images (else give --pool)", checkpoint.source, authors));
  return authors;
}

// Throws Error if an output of the table is a file that is read: the model's, or one of `read`.
void RequireOutputs(const EmbedOptions& options, const app::EmbeddingTable& table,
                    const std::vector<std::filesystem::path>& read) {
  app::InputFiles inputs = InputsOf(options.model);
  inputs.Add(read);
  for (const std::string& file : table.outputs()) inputs.RequireOutput(file);
}

// embed(texts): their vectors, [texts, width].
template <typename EmbedAll>
int WriteTexts(const EmbedOptions& options, const app::EmbeddingSource& source, EmbedAll embed) {
  const std::vector<std::string> texts = app::ReadTexts(options.texts);
  std::optional<app::EmbeddingTable> table;
  if (!options.output.empty()) {
    table.emplace(options.output, source, /*of_texts=*/true);
    RequireOutputs(options, *table, {{options.texts}});
  }
  const Tensor<float> vectors = embed(texts);
  const int64_t width = vectors.dim(1);
  for (size_t i = 0; i < texts.size(); ++i) {
    const float* vector = vectors.view().at(static_cast<int64_t>(i));
    WriteText(texts[i], {vector, vector + width}, table);
  }
  if (table) table->Save();
  return 0;
}

int EmbedTexts(const EmbedOptions& options) {
  Require(options.pool.empty() || options.pool == "model",
          "embed: --pool {} applies to images only; a text has one vector, as its model makes it", options.pool);
  if (options.model.threads > 0) SetNumThreads(options.model.threads);
  const model::BuildOptions build{.precision = ParsePrecision(options.model.dtype)};
  if (app::IsTextModel(options.model.path)) {
    RequireNoImageOptions(options.model, "embed");
    const auto model = app::LanguageModel::Open(options.model.path, build, PrintNote, options.model.Policy());
    TellUnreadHeads(model.checkpoint());
    return WriteTexts(options, Source(options, model.checkpoint(), "model"),
                      [&](const std::vector<std::string>& texts) { return model.Embed(texts, PrintNote); });
  }
  const model::Checkpoint checkpoint = OpenCheckpoint(options.model);
  const model::TwoTowerModel model = app::BuildTowers(checkpoint, options.model.Parse(), build, model::Towers::kText);
  const app::TextEncoder encoder(model, options.model.path, PrintNote);
  return WriteTexts(options, Source(options, checkpoint, "model"),
                    [&](const std::vector<std::string>& texts) { return encoder.Embed(texts, PrintNote); });
}

int Embed(const EmbedOptions& options) {
  if (!options.texts.empty()) {
    Require(options.images.paths.empty(), "embed: --text takes the place of images");
    return EmbedTexts(options);
  }
  RequireImageModel(options.model, "embed");
  Require(!options.images.paths.empty(), "embed: expected images, or texts by --text FILE");
  if (options.model.threads > 0) SetNumThreads(options.model.threads);
  const model::Checkpoint checkpoint = OpenCheckpoint(options.model);
  // The pooler of an encoder with a decoder is untrained.
  Require(!checkpoint.description.decoder || (!options.pool.empty() && options.pool != "model"),
          "embed: {} writes texts about images (qkv caption) and has no one vector of an image; --pool cls, mean or "
          "tokens gives its encoder's tokens",
          checkpoint.source);
  TellUnreadHeads(checkpoint);
  const std::string pool = ChosenPool(options, checkpoint);
  std::optional<app::EmbeddingTable> table;
  if (!options.output.empty()) {
    table.emplace(options.output, Source(options, checkpoint, pool));
  }
  const model::Model model = LoadModel(checkpoint, options.model, {.precision = ParsePrecision(options.model.dtype)});
  const ImageList images = CollectImages(options.images.paths);
  if (table) RequireOutputs(options, *table, images.files);
  app::EmbedOptions embed{.unit_length = checkpoint.description.text.has_value(),
                          .pooling = app::ParsePooling(pool, "--pool")};
  const int failed = WithProgress(options.images, images, [&](const app::PipelineOptions& pipeline) {
    embed.pipeline = pipeline;
    return app::Embed(model, images, embed, [&](std::span<const app::Embedding> results) { Write(results, table); });
  });
  if (table) table->Save();
  return failed > 0 ? 1 : 0;
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
      .AddOption("--pool", &options->pool,
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
