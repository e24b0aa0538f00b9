#include "qkv/app/images/classify.h"

#include "qkv/app/open/head_use.h"
#include "qkv/app/open/labels.h"

namespace qkv::app {

io::Json ToJson(const Classification& classification) {
  io::Json json = {{"path", classification.path}, {"top", io::Json::array()}};
  for (const model::Prediction& prediction : classification.top) {
    json["top"].push_back({{"index", prediction.index},
                           {"label", ShownLabel(prediction.label, prediction.index)},
                           {"score", prediction.score}});
  }
  if (!classification.logits.empty()) json["logits"] = classification.logits;
  return json;
}

int Classify(const model::Model& model, const ImageList& images, const ClassifyOptions& options,
             const std::function<void(std::span<const Classification>)>& use) {
  Require(model.config().classes > 0, "classify: the model has no classifier; {}", UseOfHeads(model.config()));
  std::vector<Classification> results;
  return ForEachBatch(options.pipeline, images, model, Wanted::kLogits, [&](const Batch& batch) {
    results.resize(batch.paths.size());
    for (size_t b = 0; b < results.size(); ++b) {
      const std::span<const float> logits(batch.values.row(static_cast<int64_t>(b)),
                                          static_cast<size_t>(batch.values.dim(1)));
      results[b].path = batch.paths[b], results[b].file = batch.files[b];
      results[b].top = model.Top(logits, options.top);
      if (options.logits) results[b].logits.assign(logits.begin(), logits.end());
    }
    use(results);
  });
}

}  // namespace qkv::app
