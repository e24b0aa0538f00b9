#include "qkv/model/layout/limits.h"

#include <algorithm>
#include <cmath>

#include "qkv/core/error.h"
#include "qkv/core/memory.h"
#include "qkv/model/layout/cost.h"
#include "qkv/model/layout/tensor_table.h"

namespace qkv::model {
namespace {

// Allowed for a file of any size: about a second on two cores.
constexpr double kFreeCost = 2e10;
// Published models need up to about 10⁴ operations per byte of their weights (ViT-Ti on 1024x1024 pixels).
constexpr double kCostOfByte = 1e5;
constexpr double kCostOfExponential = 32;

double Exponentials(double depth, double heads, double tokens) { return depth * heads * tokens * tokens; }

// Features per token that the wider half of a block holds at a time.
double WidestLayer(const nn::BlockConfig& c) {
  const double D = static_cast<double>(c.width);
  const nn::AttentionConfig& a = c.attention;
  // Queries made from keys, and rotated keys that are values too, are copies.
  const double copies =
      static_cast<double>((nn::QueriesAreKeys(a.kind) + nn::ValuesAreKeys(a.kind)) * a.heads * a.query_width());
  const double attention = 2 * D + static_cast<double>(CountProducts(c).projected) + copies +
                           static_cast<double>((1 + a.maps()) * a.joined_width());
  const bool apart = c.norm_place == nn::NormPlace::kOutput || c.norm_place == nn::NormPlace::kParallel;
  return std::max(attention, D + static_cast<double>(c.mlp.width)) + (apart ? D : 0);  // a sum or an output beside x
}

// Elements that the heads of masks hold for one image, see nn::MaskHeadForward.
double MaskElements(const VitConfig& c, int64_t tokens) {
  if (c.mask_classes == 0) return 0;
  const auto D = static_cast<double>(c.block.width), patches = static_cast<double>(tokens - c.prefix());
  const double pixels = c.mask_doublings > 0 ? patches * std::pow(4.0, static_cast<double>(c.mask_doublings)) : 0;
  return 2 * static_cast<double>(c.query_tokens) * D + 2.25 * pixels * D;
}

}  // namespace

double ActivationElements(const VitConfig& c, int64_t images, int64_t tokens, int64_t together) {
  const double D = static_cast<double>(c.block.width);
  const double rows = static_cast<double>(images) * static_cast<double>(tokens);
  const double embedding = rows * (2 * D + static_cast<double>(c.patch_features()));
  const double blocks = rows * D + static_cast<double>(together) * static_cast<double>(tokens) * WidestLayer(c.block);
  const double detections = 3 * static_cast<double>(images * c.detection_tokens) * D;
  // Before the query tokens enter, there is a tensor without them.
  const double waiting = c.query_tokens > 0 ? rows * D : 0;
  return std::max(embedding, blocks) + waiting + (c.detection_classes > 0 ? detections : 0) + MaskElements(c, tokens);
}

double ActivationElements(const SequenceConfig& c, int64_t sequences, int64_t tokens) {
  const double rows = static_cast<double>(sequences) * static_cast<double>(tokens);  // cross-attention is never wider
  return rows * (static_cast<double>(c.block.width) + WidestLayer(c.block));
}

double PlaceElements(const VitConfig& c, int64_t tokens) {
  const double positions =
      c.positions == Positions::kNone ? 0 : static_cast<double>(tokens) * static_cast<double>(c.block.width);
  return positions * static_cast<double>(1 + c.position_blocks()) + PlaceElements(c.block, c.depth, tokens);
}

double PlaceElements(const SequenceConfig& c, int64_t tokens) {
  const double N = static_cast<double>(tokens);
  const double distances =
      c.positions == SequencePositions::kRelative ? 2 * N * static_cast<double>(c.block.attention.heads) : 0;
  const double rows = AreComputed(c.positions) ? static_cast<double>(c.position_offset) + N : 0;
  return rows * static_cast<double>(c.block.width) + distances + PlaceElements(c.block, c.depth, tokens);
}

double PlaceElements(const nn::BlockConfig& c, int64_t depth, int64_t tokens) {
  const nn::AttentionConfig& a = c.attention;
  if (!nn::IsPositional(a.kind)) return 0;
  return 2 * static_cast<double>(depth) * static_cast<double>(a.heads) * static_cast<double>(tokens) *
         static_cast<double>(a.place_width());
}

double RelativeBiasElements(const VitConfig& c, int64_t grid_height, int64_t grid_width) {
  const double height = static_cast<double>(grid_height), width = static_cast<double>(grid_width);
  return static_cast<double>(c.relative_bias_tables()) * static_cast<double>(c.block.attention.heads) *
         ((2 * height - 1) * (2 * width - 1) + 3);
}

double Cost(const VitConfig& c, int64_t height, int64_t width) {
  const double patches = static_cast<double>(height / c.patch_height) * static_cast<double>(width / c.patch_width);
  const double N = patches + static_cast<double>(c.prefix());
  return Flops(c, height, width) +
         kCostOfExponential * Exponentials(static_cast<double>(c.depth),
                                           static_cast<double>(c.block.attention.heads * c.block.attention.maps()), N);
}

double Cost(const SequenceConfig& c) {
  const double exponentials = Exponentials(static_cast<double>(c.depth),
                                           static_cast<double>(c.block.attention.heads * c.block.attention.maps()),
                                           static_cast<double>(c.length));
  return Flops(c) + kCostOfExponential * exponentials;
}

void RequireProportion(double cost, double bytes, std::string_view what, std::string_view remedy) {
  const double most = std::max(kFreeCost, kCostOfByte * bytes);
  Require(cost <= most, "{} would take {:.3g} operations, and {} of weights may ask for {:.3g}; {}", what, cost,
          FormatBytes(bytes), most, remedy);
}

}  // namespace qkv::model
