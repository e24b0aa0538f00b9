// qkv slide tile: tissue and tiles of slides, without an encoder.
#include <memory>

#include "cli/slide_options.h"

namespace qkv::cli {

void RegisterSlideTile(Command app, int* exit_code) {
  const auto options = std::make_shared<SlideOptions>();
  const Command command = app.AddCommand("tile", "Find tissue in slides, and the tiles that show it");
  options->AddTo(command);
  command.AddFlag("--save-tiles", &options->job.save_tiles, "Write each tile as PNG too: tiles/NAME/X_Y.png");
  command.Footer(
      "Examples:\n"
      "  qkv slide tile slides/ -o results                   areas for QuPath in results/contours_geojson/\n"
      "  qkv slide tile slides/ -o results --mpp 0.5 --tile 224 --min-tissue 0.25");
  command.Callback([options, exit_code] { *exit_code = RunSlides(*options, nullptr); });
}

}  // namespace qkv::cli
