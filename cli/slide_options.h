// What the commands of `qkv slide` share: which slides, how their tiles are laid, and what is shown meanwhile.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "qkv/app/slides/slide_job.h"
#include "qkv/app/slides/slide_list.h"

namespace qkv::cli {

struct SlideOptions {
  std::vector<std::string> paths;
  std::string output, mpp_file, shard, openslide;
  std::optional<double> magnification, mpp;
  app::SlideJobOptions job;
  bool fill_holes = false, quiet = false;

  /// Slides, and how they are read.
  void AddReading(Command command);
  /// These, and tissue, tiles, --output and --shard.
  void AddTo(Command command);

  /// The slides of these options.
  std::vector<app::SlideEntry> Slides() const;
  /// `job`, complete. Throws Error for options that contradict each other.
  const app::SlideJobOptions& Job();
};

/// Runs the job over all slides, with progress on stderr and a line of JSON a slide on stdout, and writes the summary.
/// embedder: null without an encoder. Returns the exit status: 1 if a slide failed.
int RunSlides(SlideOptions& options, app::Embedder* embedder);

}  // namespace qkv::cli
