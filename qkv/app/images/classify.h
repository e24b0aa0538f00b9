// Classes of images.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "qkv/app/images/pipeline.h"
#include "qkv/io/json.h"

namespace qkv::app {

struct Classification {
  std::string path;
  std::vector<model::Prediction> top;  // best first
  std::vector<float> logits;           // [C] if requested
  size_t file = 0;                     // index in the list of images
};

/// {"path", "top": [{"index", "label", "score"}], "logits" if there are some}
io::Json ToJson(const Classification& classification);

struct ClassifyOptions {
  int64_t top = 5;      // classes for each image
  bool logits = false;  // keep all logits
  PipelineOptions pipeline;
};

/// Classifies the images in their order; `use` receives a batch of results at a time, as in ForEachBatch. Returns the
/// number of images left out. Throws Error if the model has no classifier, and as ForEachBatch.
int Classify(const model::Model& model, const ImageList& images, const ClassifyOptions& options,
             const std::function<void(std::span<const Classification>)>& use);

}  // namespace qkv::app
