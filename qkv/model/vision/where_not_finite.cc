#include "qkv/model/vision/where_not_finite.h"

namespace qkv::model {

std::string WhereNotFinite(const Vit<float>& vit, View<const float> pixels) {
  if (!AllFinite(pixels.data(), pixels.size())) return "its pixels";
  const VitConfig& c = vit.config();
  const int64_t N = vit.TokensFor(pixels.dim(2), pixels.dim(3));
  Workspace<float> workspace;
  Tensor<float> hidden({1, N, c.block.width});
  // One pass per block: a single pass would have to keep the outputs of all blocks.
  for (int64_t index = 0; index <= c.depth; ++index) {
    Outputs<float> outputs;
    outputs.hidden.push_back({index, hidden});
    vit.Forward(pixels, workspace, outputs);
    if (AllFinite(hidden.data(), hidden.size())) continue;
    return index == 0 ? "the embedding of its patches" : fmt::format("block {} of 0 to {}", index - 1, c.depth - 1);
  }
  return "what follows the blocks (norm, pooling, classifier)";
}

void RequireFinite(const Vit<float>& vit, View<const float> pixels, View<const float> values, std::string_view name) {
  if (AllFinite(values.data(), values.size())) return;
  throw AnswerError(FormatShown(
      "{}: the model's answer holds NaN or infinity, expected finite numbers; they begin in {}: weights or inputs "
      "there are too large for the precision, or broken (see qkv run --hidden all)",
      name, WhereNotFinite(vit, pixels)));
}

}  // namespace qkv::model
