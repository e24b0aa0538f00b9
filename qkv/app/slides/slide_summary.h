// One summary of all slides of a folder of results, whoever made them.
#pragma once

#include <string>
#include <vector>

#include "qkv/app/slides/slide_folder.h"
#include "qkv/app/slides/slide_state.h"

namespace qkv::app {

/// Writes summary.csv, a line a slide, and summary.html, the same with thumbnails and what went wrong, beside the
/// results; each whole or not at all. Returns the states that it is made of. Throws Error for a damaged state.
std::vector<SlideState> WriteSummary(const SlideFolder& folder);

}  // namespace qkv::app
