// From the outputs of a model of masks to segments of a photo, as transformers' EomtImageProcessor: semantic, instance
// and panoptic segmentation. Works row by row, so that no mask is held at the size of the photo. Not here: the model
// and files (segment.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "qkv/app/detection/mask_rle.h"
#include "qkv/app/detection/mask_upsampling.h"
#include "qkv/core/tensor.h"

namespace qkv::app {

enum class SegmentTask {
  kSemantic,  // a class for each pixel
  kInstance,  // objects, which may overlap
  kPanoptic,  // objects and regions, which do not overlap
};
/// "semantic", "instance", "panoptic"
std::string_view Name(SegmentTask task);
std::optional<SegmentTask> FindSegmentTask(std::string_view name);

struct SegmentRules {
  SegmentTask task = SegmentTask::kPanoptic;
  double threshold = 0.8;       // least score of a segment: of its class, for instances times that of its mask
  double mask_threshold = 0.5;  // panoptic: least probability of a pixel of a segment
  double overlap = 0.8;         // panoptic: least share of a mask's pixels that no better mask takes
  std::vector<int64_t> stuff;   // panoptic: classes whose segments are one
};

struct Segment {
  int64_t id = 0;     // in the map: semantic: the class; else from 1
  int64_t index = 0;  // of the class, from 0
  double score = 0;   // semantic: 1
  int64_t token = 0;  // query token that found it, from 0; semantic: −1
  int64_t area = 0;   // in pixels of the photo
  PixelBox box;
  MaskRle mask;
};

struct Segmentation {
  Tensor<int32_t> ids;  // [height, width]; 0: no segment (instance, panoptic). Later instances cover earlier ones
  std::vector<Segment> segments;  // in the order of their ids
};

/// Memory of FindSegments or FindRegions, in bytes: the map, and scores of rows, of Q queries and C classes.
double SegmentationBytes(SegmentTask task, const MaskGeometry& geometry, int64_t queries, int64_t classes);

/// Outputs of the model for one input (model::Outputs), dense and finite.
struct MaskOutputs {
  View<const float> classes;  // logits [Q, C + 1], the last: no object
  View<const float> masks;    // logits [Q, mask height, mask width]
};

/// Instance or panoptic. Throws Error if shapes do not fit, or beyond MemoryLimit().
Segmentation FindSegments(const MaskOutputs& outputs, const MaskGeometry& geometry, const SegmentRules& rules);

/// Semantic, from the squares of a photo (image::Squares) along the longer side of seen_height × seen_width, of which
/// each is the whole input; `starts` has one entry for each. With a single one at 0 the photo may also be padded.
/// Classes that no pixel has are left out. Throws Error likewise.
Segmentation FindRegions(std::span<const MaskOutputs> squares, std::span<const int64_t> starts,
                         const MaskGeometry& geometry);

}  // namespace qkv::app
