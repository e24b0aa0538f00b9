// qkv slide: pictures of gigapixels. Each of its commands has a file of its own, slide_NAME.cc.
#include "cli/command.h"

namespace qkv::cli {

void RegisterSlide(Command app, int* exit_code) {
  const Command group =
      app.AddCommand("slide", "Slides of microscopes: info, tile, embed, run, heatmap, summary, train");
  group.RequireCommand();
  for (const Register add : {RegisterSlideInfo, RegisterSlideTile, RegisterSlideEmbed, RegisterSlideRun,
                             RegisterSlideHeatmap, RegisterSlideSummary, RegisterSlideTrain}) {
    add(group, exit_code);
  }
}

}  // namespace qkv::cli
