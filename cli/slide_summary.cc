// qkv slide summary: one summary of what several processes did.
#include "qkv/app/slides/slide_summary.h"

#include <memory>

#include "cli/command.h"
#include "cli/output.h"

namespace qkv::cli {

void RegisterSlideSummary(Command app, int* exit_code) {
  const auto folder = std::make_shared<std::string>();
  const Command command = app.AddCommand("summary", "Write summary.csv and summary.html of a folder of results again");
  command.AddOption("FOLDER", folder.get(), "The --output of tile, embed or run, perhaps of several shards").Required();
  command.Callback([folder, exit_code] {
    const auto states = app::WriteSummary(app::SlideFolder(*folder, {}));
    Print("{} slides: {}\n", states.size(), (std::filesystem::path(*folder) / "summary.html").string());
    *exit_code = 0;
  });
}

}  // namespace qkv::cli
