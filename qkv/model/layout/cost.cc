#include "qkv/model/layout/cost.h"

#include <algorithm>

#include "qkv/model/layout/parameters.h"
#include "qkv/model/layout/tensor_table.h"

namespace qkv::model {

namespace {

// A visitor that counts the products with declared weights.
class ProductCounter {
 public:
  using Views = const float;  // never read

  void Tensor(const TensorName& name, const Shape& shape, Role role, View<Views>&) {
    if (role == Role::kWeight) Add(name, shape.size() / shape[1], shape[1]);  // [H, D, S]: M of each head
  }
  void Linear(const TensorName& name, int64_t outputs, int64_t inputs, bool, nn::LinearParameters<Views>&) {
    Add(name, outputs, inputs);
  }
  void Norm(const TensorName&, int64_t, const nn::NormConfig&, nn::NormParameters<Views>&) {}

  TokenProducts counts;

 private:
  void Add(const TensorName& name, int64_t outputs, int64_t inputs) {
    counts.multiply_adds += outputs * inputs;
    if (name.layer == "attn." && name.name != "proj") counts.projected += outputs;
  }
};

// Total length of the products of scores of all heads, for costs.
double ScoredWidth(const nn::AttentionConfig& c, int64_t width) {
  const int64_t of_head = c.kind == nn::AttentionKind::kMerged ? c.source(width) : c.place_width();
  return static_cast<double>(c.heads * of_head);
}

// Operations of the heads that read the query tokens, for this many patches.
double MaskFlops(const VitConfig& c, double patches) {
  if (c.mask_classes == 0) return 0;
  const auto D = static_cast<double>(c.block.width), Q = static_cast<double>(c.query_tokens);
  double flops = 2 * Q * D * (3 * D + static_cast<double>(c.mask_classes + 1));
  for (int64_t i = 0; i < c.mask_doublings; ++i, patches *= 4) flops += 2 * 4 * patches * D * (D + 9);
  return flops + 2 * Q * D * patches;
}

}  // namespace

TokenProducts CountProducts(const nn::BlockConfig& config) {
  ProductCounter counter;
  nn::BlockParameters<ProductCounter::Views> none;
  VisitBlock(config, /*tokens=*/0, none, counter);
  return counter.counts;
}

double Flops(const nn::BlockConfig& c, double N) {
  const auto attended = [&](const nn::AttentionConfig& a) {
    const bool limited = a.window_left >= 0 && a.window_right >= 0;
    const double seen = limited ? std::min(N, static_cast<double>(a.window_left + a.window_right + 1)) : N;
    return N * seen * (ScoredWidth(a, c.width) + static_cast<double>(a.maps() * a.joined_width()));
  };
  const double products = N * static_cast<double>(CountProducts(c).multiply_adds);
  return 2 * (products + attended(c.attention) + (c.cross ? attended(*c.cross) : 0));
}

double Flops(const VitConfig& c) { return Flops(c, c.image_height, c.image_width); }

double Flops(const VitConfig& c, int64_t height, int64_t width) {
  const double patches = static_cast<double>(height / c.patch_height) * static_cast<double>(width / c.patch_width);
  const double embedding = 2 * patches * static_cast<double>(c.patch_features()) * static_cast<double>(c.block.width);
  const double head = 2 * static_cast<double>(c.pooled_width()) * static_cast<double>(c.classes);
  const double projection = 2 * static_cast<double>(c.projection_input()) * static_cast<double>(c.projection_width);
  const auto D = static_cast<double>(c.block.width);
  const double detection = c.detection_classes == 0 ? 0
                                                    : 2 * static_cast<double>(c.detection_tokens) * D *
                                                          (4 * D + static_cast<double>(c.detection_classes + 5));
  const double tokens = patches + static_cast<double>(c.prefix());
  const auto waiting = static_cast<double>(c.query_tokens > 0 ? c.depth - c.query_blocks : 0);
  const double blocks = waiting * Flops(c.block, tokens - static_cast<double>(c.query_tokens)) +
                        (static_cast<double>(c.depth) - waiting) * Flops(c.block, tokens);
  return embedding + blocks + projection + head * (c.distillation_head ? 2 : 1) + detection + MaskFlops(c, patches);
}

double Flops(const SequenceConfig& c) {
  const double N = static_cast<double>(c.length);
  const double head = 2 * N * static_cast<double>(c.block.width) * static_cast<double>(c.outputs);
  return static_cast<double>(c.depth) * Flops(c.block, N) + head;
}

}  // namespace qkv::model
