// qkv slide embed and run: vectors of tiles, and with heads answers and maps.
#include <memory>
#include <utility>

#include "cli/output.h"
#include "cli/slide_options.h"
#include "qkv/app/slides/slide_answers.h"

namespace qkv::cli {
namespace {

struct SlideEmbedOptions {
  SlideOptions slides;
  ModelOptions model;
  std::string name;
  std::vector<std::string> heads;
  bool no_maps = false;
};

const std::map<std::string, app::FeatureLayout>& Layouts() {
  static const std::map<std::string, app::FeatureLayout> layouts = {{"trident", app::FeatureLayout::kTrident},
                                                                    {"clam", app::FeatureLayout::kClam},
                                                                    {"safetensors", app::FeatureLayout::kSafeTensors}};
  return layouts;
}

// "UNI2-h" of MahmoodLab/UNI2-h in the hub's cache.
std::string NameOfEncoder(const std::string& path) {
  const std::string id = app::HubIdOf(path);
  return app::IdOfPath(id.empty() ? path : id);
}

int SlideEmbed(SlideEmbedOptions& options, std::string_view work) {
  app::SlideJobOptions& job = options.slides.job;
  job.encoder = options.name.empty() ? NameOfEncoder(options.model.path) : options.name;
  job.heads = app::OpenHeads(options.heads);
  job.maps = !options.no_maps;
  app::Embedder embedder(std::string(work), OpenModel(options.model), PrintNote);
  for (const app::NamedHead& head : job.heads) {
    Require(head.head->width() == embedder.WidthOfImages(),
            "{}: the head {} takes vectors of {}, the encoder's have {}", work, head.name, head.head->width(),
            embedder.WidthOfImages());
  }
  return RunSlides(options.slides, &embedder);
}

Command AddSlideEmbed(Command app, const std::string& name, std::string_view description,
                      const std::shared_ptr<SlideEmbedOptions>& options) {
  const Command command = app.AddCommand(name, description);
  options->slides.AddTo(command);
  options->model.AddModel(command, /*required=*/true);
  options->model.AddSize(command);
  options->model.AddCompute(command);
  command.AddOption("--pool", &options->model.pool, "As for qkv embed").OneOf({"model", "cls", "mean", "cls+mean"});
  command.AddOption("--batch", &options->slides.job.batch, "Tiles computed together (default: what suits the encoder)")
      .Range(1, 4096);
  command.AddOption("--name", &options->name, "What the vectors are called: features_NAME/ (default: from -m)")
      .TypeName("NAME");
  command
      .AddOption(
          "--layout", [options](const std::string& layout) { options->slides.job.layout = Layouts().at(layout); },
          "In the folder of TRIDENT's files also clam (h5_files/, pt_files/) or safetensors")
      .OneOf(Layouts());
  command.AddFlag("--overwrite", &options->slides.job.overwrite,
                  "Replace vectors that another encoder or other tiles made, such as those of edited borders");
  return command;
}

}  // namespace

void RegisterSlideEmbed(Command app, int* exit_code) {
  const auto options = std::make_shared<SlideEmbedOptions>();
  const Command command = AddSlideEmbed(app, "embed", "Turn the tiles of slides into vectors", options);
  command.Footer(
      "Examples:\n"
      "  qkv slide embed slides/ -m MahmoodLab/UNI2-h -o results --mag 20 --tile 256\n"
      "  qkv slide embed slides/ -m owkin/phikon-v2 -o results --dtype int8 --shard 2/8");
  command.Callback([options, exit_code] { *exit_code = SlideEmbed(*options, "slide embed"); });
}

void RegisterSlideRun(Command app, int* exit_code) {
  const auto options = std::make_shared<SlideEmbedOptions>();
  const Command command =
      AddSlideEmbed(app, "run", "Slides to vectors, answers of heads, and maps of where they looked", options);
  command
      .AddOption(
          "--head", &options->heads,
          "Attention over tiles: a checkpoint of CLAM's or FEATHER's, also by its name in the hub's cache, or a run of "
          "qkv slide train; again for more")
      .TypeName("PATH")
      .Repeatable();
  command.AddFlag("--no-maps", &options->no_maps, "Answers without heatmaps");
  command.Footer(
      "Example:\n"
      "  qkv slide run slides/ -m MahmoodLab/UNI2-h --head MahmoodLab/abmil.base.uni_v2.pc108-24k -o results\n"
      "Started again, it goes on where it was stopped.");
  command.Callback([options, exit_code] { *exit_code = SlideEmbed(*options, "slide run"); });
}

}  // namespace qkv::cli
