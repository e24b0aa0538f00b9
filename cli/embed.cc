// qkv embed: images to vectors.
#include "qkv/app/embed.h"

#include <memory>
#include <optional>
#include <span>

#include "cli/command.h"
#include "cli/images.h"
#include "cli/output.h"
#include "qkv/app/input_files.h"
#include "qkv/core/parallel.h"

namespace qkv::cli {
namespace {

struct Options {
  ModelOptions model;
  ImageOptions images;
  std::string pool = "model", output;
};

int Embed(const Options& options) {
  if (options.model.threads > 0) SetNumThreads(options.model.threads);
  const model::Checkpoint checkpoint = OpenCheckpoint(options.model);
  std::optional<app::EmbeddingTable> table;
  if (!options.output.empty()) {
    table.emplace(options.output, app::EmbeddingSource{.model = options.model.path,
                                                       .weights = app::FingerprintWeights(checkpoint),
                                                       .pool = options.pool,
                                                       .size = options.model.size});
  }
  const model::Model model = LoadModel(checkpoint, options.model, {.precision = ParsePrecision(options.model.dtype)});
  const ImageList images = CollectImages(options.images.paths);
  if (table) {
    app::InputFiles inputs(options.model.path);
    inputs.Add(images.files);
    for (const std::string& file : table->outputs()) inputs.RequireOutput(file);
  }
  const auto use = [&](std::span<const app::Embedding> results) {
    for (const app::Embedding& embedding : results) {
      if (table) {
        table->Add(embedding);
      } else {
        PrintJsonLine(ToJson(embedding));
      }
    }
  };
  app::EmbedOptions embed{.pooling = app::ParsePooling(options.pool, "--pool")};
  const int failed = WithProgress(options.images, images, [&](const app::PipelineOptions& pipeline) {
    embed.pipeline = pipeline;
    return app::Embed(model, images, embed, use);
  });
  if (table) table->Save();
  return failed > 0 ? 1 : 0;
}

}  // namespace

void RegisterEmbed(Command app, int* exit_code) {
  const auto options = std::make_shared<Options>();
  const Command command = app.AddCommand("embed", "Turn images into vectors");
  options->model.AddModel(command);
  options->model.AddSize(command);
  options->model.AddCompute(command);
  options->images.AddTo(command);
  command
      .AddOption("--pool", &options->pool,
                 "model: what the model's classifier sees; cls: the class token; mean: of the patches; tokens: all")
      .OneOf({"model", "cls", "mean", "tokens"})
      .ShowDefault();
  command.AddOption("-o,--output", &options->output, "out.npy or out.safetensors; without it JSON Lines on stdout")
      .TypeName("FILE");
  command.Callback([options, exit_code] { *exit_code = Embed(*options); });
}

}  // namespace qkv::cli
